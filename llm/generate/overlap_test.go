package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Where dispatches wait for results by themselves instead of behind barriers, tokens are
// the goldens' as well.
func TestOverlap(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		require.Equal(t, d.Backend() == "vulkan", d.Stats().Overlap)
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, c := range cases[:2] {
				r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: len(c.GeneratedIDs)})
				require.NoError(t, err)
				require.Equal(t, c.GeneratedIDs, r.IDs)
			}
			stats := s.Region().Stats()
			if d.Backend() == "vulkan" && d.Info().SubgroupSize >= 8 { // smaller ones have no fused products
				require.Greater(t, stats.Overlaps, stats.Dispatches/2)
			} else {
				require.Zero(t, stats.Overlaps)
			}
		})
	}, kompute.WithStrict(), kompute.WithOverlap())
}
