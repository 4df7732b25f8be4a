package fallback

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Operands of the shape ops that do not fit are rejected; ops/optest tests the
// results.
func TestShapeOpsRefuse(t *testing.T) {
	x, y := must(t, []float32{1, 2, 3}, 3), must(t, []float32{1, 2}, 2)
	i, flag := must(t, []int32{0, 1}, 2), must(t, []bool{true, false, true}, 3)
	scalar, none := must(t, []float32{1}), array.Array{}
	for name, err := range map[string]error{
		"slice larger":         Slice(y, none, x, []int{0}),
		"slice type":           Slice(x, none, i, []int{0}),
		"slice starts":         Slice(x, none, y, nil),
		"slice start":          Slice(x, i, y, nil),
		"fill absent":          Fill(none, 0),
		"arange bool":          Arange(flag, 0, 1),
		"arange rank":          Arange(scalar, 0, 1),
		"concat nothing":       Concat(nil, x, 0),
		"concat axis":          Concat([]array.Array{x}, x, 1),
		"concat length":        Concat([]array.Array{x, y}, x, 0),
		"concat type":          Concat([]array.Array{i}, y, 0),
		"pad widths":           Pad(y, x, nil, 0),
		"pad outside":          Pad(y, x, []int{2}, 0),
		"pad far outside":      Pad(y, x, []int{math.MaxInt}, 0),
		"pad type":             Pad(i, x, []int{0}, 0),
		"where condition":      Where(x, x, x, x),
		"where shape":          Where(flag, y, x, x),
		"gather_axis axis":     GatherAxis(x, i, y, 1),
		"gather_axis index":    GatherAxis(x, y, y, 0),
		"gather_axis shape":    GatherAxis(x, i, x, 0),
		"scatter axis":         Scatter(x, i, y, x, 1, opdef.ScatterSet),
		"scatter mode":         Scatter(x, i, y, x, 0, opdef.ScatterMax+1),
		"scatter updates":      Scatter(x, i, x, x, 0, opdef.ScatterSet),
		"scatter index":        Scatter(x, y, y, x, 0, opdef.ScatterSet),
		"scatter along":        PutAlongAxis(x, i, x, x, 0, opdef.ScatterSet),
		"scatter along scalar": PutAlongAxis(x, must(t, []int32{0}), scalar, x, 0, opdef.ScatterSet),
	} {
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	require.Equal(t, []float32{1, 2, 3}, array.Storage[float32](x), "nothing was written")
}

// The positions of elements must be numbers that do not overflow, which would otherwise seem to lie in the storage.
func TestLayoutsThatOverflow(t *testing.T) {
	x := must(t, []float32{1, 2, 3}, 3)
	for _, l := range []array.Layout{
		{Shape: []int{math.MaxInt}, Strides: []int{math.MaxInt}},
		{Shape: []int{math.MaxInt/2 + 1, 4}, Strides: []int{1, 0}},
		{Shape: []int{math.MaxInt/2 + 2}, Strides: []int{4}},
	} {
		y := x
		y.Layout = l
		require.ErrorIs(t, Fill(y, 0), ErrInvalid, l)
		require.ErrorIs(t, Softmax(y, y), ErrInvalid, l)
	}
	require.Equal(t, []float32{1, 2, 3}, array.Storage[float32](x), "nothing was written")
}

// Norms of no rows need no memory, however long the rows would be.
func TestNormsOfNoRows(t *testing.T) {
	x := must(t, []float32{}, 0, math.MaxInt/2+1)
	require.NoError(t, LayerNorm(x, array.Array{}, array.Array{}, x, 1))
	require.NoError(t, RMSNorm(x, array.Array{}, x, 1))
}
