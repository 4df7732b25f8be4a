package fallback

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// runStages runs a call by its stages, several times.
func runStages[P any](g *gen, op opdef.Op, params P, arrays []array.Array) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&params)), unsafe.Sizeof(params))
	s := StagesOf(op.Name, arrays, bytes)
	require.NotNil(g, s)
	parts, err := s.Make(arrays, make([]float32, s.Scratch))
	require.NoError(g, err)
	require.Len(g, parts, len(s.Loops))
	var steps []workers.Step
	for _, p := range parts {
		steps = append(steps, workers.Step{p})
	}
	require.NoError(g, workers.NewSchedule(steps).Run(2))
}

// A product of one row has the same bits however it is cut into pieces.
func TestProductStagesEqualTheOp(t *testing.T) {
	property := func(g *gen) {
		q := g.format()
		w := g.quantized(g.int("n", 1, 300), g.int("groups", 1, 640/q.GroupSize), q)
		dtype := g.dtype("type", floatTypes)
		k, n := w.scales.Shape[1]*q.GroupSize, w.w.Shape[0]
		x := g.array(dtype, []int{1, 1, k}, g.normal)
		want, got := g.output(dtype, []int{1, 1, n}), g.output(dtype, []int{1, 1, n})
		require.NoError(g, QuantizedMatMulTransposed(x, w.w, w.scales, w.biases, want, q))
		params := opdef.QuantizedMatMulParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Transpose: 1}
		runStages(g, opdef.QuantizedMatMul.Op, params, []array.Array{x, w.w, w.scales, w.biases, got})
		require.Equal(g, values(want), values(got))
	}
	check(t, property)
}
