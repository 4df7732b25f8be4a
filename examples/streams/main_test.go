package main

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
)

func TestRun(t *testing.T) {
	for _, device := range []string{"cpu", "vulkan"} {
		t.Run(device, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), &out, device, job{batches: 5, size: 48, products: 3})
			if device == "vulkan" && !testmodel.VulkanBuilt {
				require.ErrorIs(t, err, kompute.ErrNoVulkan)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out.String(), "results agree")
			require.Contains(t, out.String(), "sum [2 4 6]")
		})
	}
}

func TestWrongResultsAreFound(t *testing.T) {
	j := job{batches: 2, products: 2}
	require.NoError(t, j.compare(results{first: []float32{4, 8}}))
	require.ErrorContains(t, j.compare(results{first: []float32{4, 0}}), "not [4 8]")
	j.size = 1
	require.ErrorIs(t, run(t.Context(), nil, "nothing", j), kompute.ErrNoDevice)
	for _, bad := range []job{{0, 1, 1, nil}, {1, -1, 1, nil}, {1, 1, 0, nil}} {
		require.ErrorContains(t, run(t.Context(), nil, "cpu", bad), "less than 1")
	}
}

// Jobs whose sizes or results would overflow are refused; the largest result is exact.
func TestJobsBeyondTheLimits(t *testing.T) {
	for _, bad := range []job{{1, math.MaxInt32, 1, nil}, {1, 1, 128, nil}, {1 << 25, 1, 1, nil}} {
		require.ErrorContains(t, run(t.Context(), nil, "cpu", bad), "is more than")
	}
	require.NoError(t, job{batches: mostBatches, size: mostSize, products: mostProducts}.check())
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, "cpu", job{batches: 2, size: 2, products: mostProducts}))
	require.LessOrEqual(t, math.Ldexp(mostBatches, mostProducts), math.MaxFloat32)
}
