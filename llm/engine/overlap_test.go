package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
)

// A request alone, whose dispatches wait for results by themselves instead of behind
// barriers, and then with others.
func TestOverlap(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	eachDemo(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 2, Context: 256})
		defer d.close(e)
		submit := func(c testmodel.Case) *engine.Stream {
			s, err := e.Submit(d.Context(), engine.Request{Prompt: c.PromptIDs, MaxTokens: len(c.GeneratedIDs), EOS: d.folder.EOS()})
			require.NoError(d, err)
			return s
		}
		result := func(c testmodel.Case, s *engine.Stream) {
			got, err := s.Result(d.Context())
			require.NoError(d, err)
			require.Equal(d, c.GeneratedIDs, got.IDs)
		}
		result(cases[0], submit(cases[0]))
		a, b := submit(cases[1]), submit(cases[2])
		result(cases[1], a)
		result(cases[2], b)
		steps, err := e.Profile(d.Context(), 1)
		require.NoError(d, err)
		require.NotEmpty(d, steps)
		dev, alone := d.model.Device(), 0
		for _, step := range steps {
			if step.Rows != 1 {
				continue
			}
			alone++
			overlaps := 0
			for _, dispatch := range step.Region.Dispatches {
				if dispatch.Overlaps {
					overlaps++
				}
			}
			if dev.Backend() == "vulkan" && dev.Info().SubgroupSize >= 8 { // smaller ones have no fused products
				require.Greater(d, overlaps, len(step.Region.Dispatches)/2)
			}
		}
		require.Positive(d, alone, "a step of one row")
	}, kompute.WithStrict(), kompute.WithOverlap())
}
