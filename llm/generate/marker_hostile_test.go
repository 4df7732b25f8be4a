package generate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
	"github.com/kompute-go/kompute-go/llm/chat"
)

// A context ends the search for control tokens soon where hundreds begin at each character of a message.
func TestManyControlTokensHonourContext(t *testing.T) {
	f := openDemo(t)
	tok := changedTokenizer(t, func(file map[string]any) {
		added := file["added_tokens"].([]any)
		for n := range 500 {
			added = append(added, map[string]any{"id": 2048 + n, "content": strings.Repeat("\x01", n+1), "special": true})
		}
		file["added_tokens"] = added
	})
	m := &marker{tokenizer: tok, template: f.Template}
	text := m.add("user", "\x01") + strings.Repeat("\x01", 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	testlimit.Run(t, 5*time.Second, 512<<20, func() { m.remove(ctx, text) })
	clean, at := m.remove(t.Context(), text[:1000])
	require.Equal(t, strings.NewReplacer(chat.MarkBegin, "", chat.MarkEnd, "").Replace(text[:1000]), clean)
	require.Equal(t, []int{0}, at)
}
