package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Weights in every form: with the kernels of a GPU, replayed tokens are those of eager
// passes and of the CPU backend.
func TestSessionsOfEveryPacking(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	tokenizer := openDemo(t).Tokenizer
	seen := make(map[checkpoint.Packing][]int)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, packing := range testmodel.Some(d, []checkpoint.Packing{
			{GroupSize: 32, Bits: 4, Mode: "mxfp4"}, {GroupSize: 16, Bits: 4, Mode: "nvfp4"}, {GroupSize: 32, Bits: 8, Mode: "mxfp8"},
			{GroupSize: 64, Bits: 6}, {GroupSize: 64, Bits: 8}, {GroupSize: 32, Bits: 3},
		}...) {
			spec := testmodel.Small()
			spec.Packing = packing
			c, _ := spec.Open(t)
			m, err := model.Load(t.Context(), d, c, model.Options{})
			require.NoError(t, err)
			s, err := NewSession(m, tokenizer, 1)
			require.NoError(t, err)
			for _, eager := range []bool{true, false} {
				r, err := s.Generate(t.Context(), []int{5, 17, 94, 0, 3}, Options{MaxTokens: 12, Eager: eager})
				require.NoError(t, err)
				require.Equal(t, eager, s.Stats().Work.Replays == 0)
				if seen[packing] == nil {
					seen[packing] = r.IDs
				}
				require.Equal(t, seen[packing], r.IDs, "%v", packing)
			}
			require.NoError(t, s.Close())
			require.NoError(t, m.Close())
		}
	})
}
