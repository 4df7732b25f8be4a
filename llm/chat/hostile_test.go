package chat_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
	"github.com/kompute-go/kompute-go/llm/chat"
)

// The bounds of every hostile template: enough for a quarter of a gigabyte of values,
// the garbage of growing them, and 20 million steps.
const (
	hostileTime   = 12 * time.Second
	hostileMemory = 1 << 30
)

// hostile are templates that would take all memory or all time. The engine's own
// test has many more.
var hostile = map[string]string{
	"indent":         `{{ "x\n"|indent(100000000000) }}`,
	"repeat":         `{{ "x"*10**10 }}`,
	"list in itself": `{% set l = [] %}{% set _ = l.append(l) %}{{ l }}`,
	"joins":          `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x]|join(ns.x) %}{% endfor %}{{ ns.x }}`,
	"replacements":   `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = ns.x|replace("x", ns.x) %}{% endfor %}{{ ns.x }}`,
	"nested ranges":  `{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}`,
}

// TestHostile: each ends with an error, in bounded time and memory.
func TestHostile(t *testing.T) {
	for name, source := range hostile {
		t.Run(name, func(t *testing.T) {
			testlimit.Run(t, hostileTime, hostileMemory, func() {
				template, err := chat.Parse(source)
				if err == nil {
					_, err = template.Render(t.Context(), nil, chat.Options{})
				}
				require.ErrorIs(t, err, chat.ErrTemplate)
				require.ErrorIs(t, err, chat.ErrLimit)
				require.Less(t, len(err.Error()), 1000)
				t.Log(err)
			})
		})
	}
}

// The caller's context ends a rendering.
func TestRenderHonoursContext(t *testing.T) {
	template, err := chat.Parse(hostile["nested ranges"])
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	testlimit.Run(t, time.Second, hostileMemory, func() { _, err = template.Render(ctx, nil, chat.Options{}) })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, chat.ErrTemplate)
	require.NotErrorIs(t, err, chat.ErrLimit)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = template.Render(cancelled, nil, chat.Options{})
	require.ErrorIs(t, err, context.Canceled)
}
