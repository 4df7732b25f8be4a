package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// modelOps are the ops of the demo model and its greedy decoding.
var modelOps = []string{
	"binary", "quantized_gather", "quantized_matmul", "reduce", "rms_norm", "rope", "sdpa", "silu_mul", "slice_update",
}

// The demo model gives the same text with any single op disabled, and that op
// always runs on the CPU: no fusion hides it.
func TestEachOpDisabled(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	calls := map[string]int{}
	for _, op := range modelOps {
		t.Run(op, func(t *testing.T) {
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				withSession(t, f, d, model.Options{}, func(s *Session) {
					n := min(4, len(c.GeneratedIDs))
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: n})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs[:n], r.IDs)
					if d.Backend() == "cpu" {
						require.Empty(t, s.Stats().Fallbacks)
						return
					}
					require.Len(t, s.Stats().Fallbacks, 1)
					require.Len(t, s.Stats().Fallbacks[op], 1)
					require.GreaterOrEqual(t, s.Stats().Fallbacks[op]["disabled"], n, "once a token at least")
					calls[op] = s.Stats().Fallbacks[op]["disabled"]
				})
			}, kompute.WithDisabled(op))
		})
	}
	if len(calls) > 0 { // two norms per layer, those of queries and keys, and the final one
		require.Equal(t, calls["sdpa"]*4+calls["quantized_gather"], calls["rms_norm"])
		require.Equal(t, calls["sdpa"]*7+calls["quantized_gather"], calls["quantized_matmul"])
	}
}
