package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// A tensor that is converted must fit the device as stored as well, which a plan finds.
func TestPlanChecksStoredSize(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	stored := checkpoint.Tensor{Name: "w", File: "f", DType: array.Float32, Stored: "F32", Shape: []int{10}, Data: make([]byte, 40)}
	for most, fits := range map[int64]bool{0: true, 40: true, 39: false, 20: false} {
		plan := &Loader[kompute.Float16]{ctx: t.Context(), device: d, most: most}
		plan.activation(stored)
		if fits {
			require.NoError(t, plan.err)
			require.EqualValues(t, 20, plan.bytes)
			continue
		}
		var fit *FitError
		require.ErrorAs(t, plan.err, &fit)
		require.EqualValues(t, 40, fit.Needed)
		require.Equal(t, most, fit.Available)
	}
}
