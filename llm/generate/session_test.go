package generate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// unfinished returns a host on the CPU backend whose device is to be replaced, but the context
// of who began that has ended meanwhile. before is called with the host before that.
func unfinished(t *testing.T, f *Folder, before func(h *model.Host)) *model.Host {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d, err := kompute.Open("cpu", kompute.WithLogger(testmodel.OnLine(cancel)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	h, err := model.NewHost(t.Context(), d, f.Checkpoint, model.Options{}, model.HostOptions{Most: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	before(h)
	_, err = h.Replace(ctx, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	return h
}

// A session whose device somebody else has closed in order to replace it, but did not, has it
// replaced for its next generation. So does a new session.
func TestSessionsAfterACancelledReplacement(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	o := Options{MaxTokens: 4}
	for _, name := range []string{"old", "new"} {
		t.Run(name, func(t *testing.T) {
			var s *Session
			h := unfinished(t, f, func(h *model.Host) {
				var err error
				s, err = NewHostedSession(h, f.Tokenizer, 32)
				require.NoError(t, err)
				_, err = s.Generate(t.Context(), cases[0].PromptIDs, o)
				require.NoError(t, err)
			})
			if name == "new" {
				_ = s.Close() // its device is closed
				var err error
				s, err = NewHostedSession(h, f.Tokenizer, 32)
				require.NoError(t, err)
			}
			r, err := s.Generate(t.Context(), cases[0].PromptIDs, o)
			require.NoError(t, err)
			require.Equal(t, cases[0].GeneratedIDs[:4], r.IDs)
			require.Equal(t, 1, h.Replaced())
			require.NoError(t, s.Close())
		})
	}
}

// What a session has learned about the memory of a device does not hold for another one.
func TestMovedSessionReadsWholePieces(t *testing.T) {
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	withSession(t, f, d, model.Options{}, func(s *Session) {
		s.pieceLimit = fewestRows
		require.NoError(t, s.move(s.model, 8))
		require.Zero(t, s.pieceLimit)
	})
	require.NoError(t, d.Close())
}
