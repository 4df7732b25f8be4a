package generate

import (
	"maps"
	"slices"
	"strings"
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

// The demo model gives the same text with every other op disabled, and those ops
// always run on the CPU, between others on the device: no fusion hides them.
func TestOpsDisabled(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	calls := map[string]int{}
	for first := range 2 {
		var disabled []string
		for i := first; i < len(modelOps); i += 2 {
			disabled = append(disabled, modelOps[i])
		}
		t.Run(strings.Join(disabled, ","), func(t *testing.T) {
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				withSession(t, f, d, model.Options{}, func(s *Session) {
					n := min(4, len(c.GeneratedIDs))
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: n})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs[:n], r.IDs)
					fallbacks := s.Stats().Fallbacks
					if d.Backend() == "cpu" {
						require.Empty(t, fallbacks)
						return
					}
					require.ElementsMatch(t, disabled, slices.Collect(maps.Keys(fallbacks)))
					for op, reasons := range fallbacks {
						require.Len(t, reasons, 1)
						require.GreaterOrEqual(t, reasons["disabled"], n, "once a token at least")
						calls[op] = reasons["disabled"]
					}
				})
			}, kompute.WithDisabled(disabled...))
		})
	}
	if len(calls) > 0 { // two norms per layer, those of queries and keys, and the final one
		require.Equal(t, calls["sdpa"]*4+calls["quantized_gather"], calls["rms_norm"])
		require.Equal(t, calls["sdpa"]*7+calls["quantized_gather"], calls["quantized_matmul"])
	}
}
