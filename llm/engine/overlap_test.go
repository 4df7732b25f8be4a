package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
)

// A request alone, whose dispatches wait for results themselves instead of at
// barriers, and then several at once.
func TestOverlap(t *testing.T) {
	t.Setenv(asGPU, "1")
	cases, _ := testmodel.Goldens(t)
	eachDemo(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 4, Context: 256})
		defer d.close(e)
		const most = 8 // tokens: CPU drivers take long where dispatches wait
		submit := func(c testmodel.Case) *engine.Stream {
			s, err := e.Submit(d.Context(), engine.Request{Prompt: c.PromptIDs, MaxTokens: most, EOS: d.folder.EOS()})
			require.NoError(d, err)
			return s
		}
		result := func(c testmodel.Case, s *engine.Stream) {
			got, err := s.Result(d.Context())
			require.NoError(d, err)
			require.Equal(d, c.GeneratedIDs[:min(most, len(c.GeneratedIDs))], got.IDs)
		}
		result(cases[0], submit(cases[0]))
		var streams []*engine.Stream
		for i := range 4 {
			streams = append(streams, submit(cases[i%len(cases)]))
		}
		for i, stream := range streams {
			result(cases[i%len(cases)], stream)
		}
		steps, err := e.Profile(d.Context(), 1)
		require.NoError(d, err)
		require.NotEmpty(d, steps)
		dev, alone, several := d.model.Device(), 0, 0
		for _, step := range steps {
			if step.Rows > 4 {
				continue
			}
			overlaps := 0
			for _, dispatch := range step.Region.Dispatches {
				if dispatch.Overlaps {
					overlaps++
				}
			}
			above := 0
			if step.Rows == 1 {
				alone++
				above = len(step.Region.Dispatches) / 2
			} else if step.Rows == 4 {
				several++
			}
			// The kernel for two rows waits for x at a barrier.
			if step.Rows != 2 && dev.Backend() == "vulkan" && dev.Info().SubgroupSize >= 8 { // smaller ones have no fused products
				require.Greater(d, overlaps, above)
			}
		}
		require.Positive(d, alone, "a step of one row")
		require.Positive(d, several, "a step of four rows")
	}, kompute.WithStrict(), kompute.WithOverlap())
}
