package fallback

import (
	"math"
	"runtime"
	"slices"
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
	scratch := make([]float32, s.Scratch)
	parts, err := s.Make(arrays, scratch)
	require.NoError(g, err)
	require.Len(g, parts, len(s.Loops))
	var steps []workers.Step
	for _, p := range parts {
		steps = append(steps, workers.Step{p})
		if p.Prefetch == nil {
			continue
		}
		for align, lo := max(p.Align, 1), 0; lo < p.Units; lo += align { // does not panic
			p.Prefetch(lo, lo)
			p.Prefetch(lo, min(lo+align, p.Units))
			p.Prefetch(lo, p.Units)
		}
	}
	schedule := workers.NewSchedule(steps)
	for range 2 {
		for i := range scratch {
			scratch[i] = float32(math.NaN()) // other calls use this memory, too
		}
		require.NoError(g, schedule.Run(1))
	}
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

// Rows are the same however they are divided among workers.
func TestGatherStagesEqualTheOp(t *testing.T) {
	check(t, func(g *gen) {
		q := g.format()
		w := g.quantized(g.int("rows", 1, 20), g.int("groups", 1, 3), q)
		rows := w.w.Shape[0]
		index := g.array(array.Int32, g.shape(0, 2), func() float64 { return g.index(rows) })
		dtype, shape := g.dtype("type", floatTypes), append(slices.Clone(index.Shape), w.scales.Shape[1]*q.GroupSize)
		want, got := g.output(dtype, shape), g.output(dtype, shape)
		require.NoError(g, QuantizedGather(w.w, w.scales, w.biases, index, want, q))
		params := opdef.QuantizedGatherParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits)}
		runStages(g, opdef.QuantizedGather.Op, params, []array.Array{w.w, w.scales, w.biases, index, got})
		require.Equal(g, values(want), values(got))
	})
}

// Attention has the same bits in every form, and puts the same token into the caches.
func TestAttentionInEveryForm(t *testing.T) {
	seen := map[attentionForm]int{}
	property := func(g *gen) {
		o := &opdef.AttentionProjection
		dtype := g.dtype("type", floatTypes)
		heads, group, d := g.int("heads", 1, 3), g.int("group", 1, 3), 2*g.int("d", 1, 40)
		dv, capacity := 32*g.int("dv", 1, 5), g.int("capacity", 1, []int{80, 140, 1200}[g.int("most", 0, 2)])
		a := make([]array.Array, len(o.Operands))
		number := func(n int) array.Array { return must(t, []int32{int32(n)}, 1) }
		a[o.Q.Index] = g.array(dtype, []int{heads * group, d}, g.normal)
		a[o.K.Index] = g.array(dtype, []int{heads, d}, g.normal)
		a[o.V.Index] = g.array(dtype, []int{heads, dv}, g.normal)
		a[o.QGain.Index], a[o.KGain.Index] = g.array(dtype, []int{d}, g.normal), g.array(dtype, []int{d}, g.normal)
		a[o.Position.Index] = number(g.int("position", 0, 50))
		a[o.Start.Index] = must(t, []int32{0, 0, int32(g.int("place", 0, capacity-1)), 0}, 4)
		a[o.KeyLength.Index] = number(g.int("length", 0, capacity))
		keys := g.array(dtype, []int{1, heads, capacity, d}, g.normal)
		columns := g.array(dtype, []int{1, heads, capacity, dv}, g.normal)
		w := g.quantized(g.int("n", 1, 60), heads*group*dv/32, Quantization{GroupSize: 32, Bits: 4})
		a[o.W.Index], a[o.Scales.Index], a[o.Biases.Index] = w.w, w.scales, w.biases
		params := opdef.AttentionProjectionParams{
			Step: opdef.AttentionStepParams{
				QNorm: 1, KNorm: 1, QEps: 1e-6, KEps: 1e-6, Dims: uint32(2 * g.int("pairs", 0, d/2)), Base: 10000, RopeScale: 1,
				Keys: uint32(capacity), Scale: 0.3,
			},
			Projection: opdef.ProjectionParams{GroupSize: 32, Bits: 4},
		}
		var want []array.Array
		for _, threads := range []int{heads + 1, 1, 2, heads, 7} {
			got := g.copies([]array.Array{keys, columns, g.output(dtype, []int{1, w.w.Shape[0]})})
			a[o.Keys.Index], a[o.Values.Index], a[o.Out.Index] = got[0], got[1], got[2]
			step, err := newAttentionStep(a, params.Step, make([]float32, stepScratch(a)))
			require.NoError(g, err)
			seen[step.formFor(step.length(), threads)]++
			step.out = step.q // any result of its own
			require.Equal(g, byPieces, step.formFor(step.length(), threads))
			before := runtime.GOMAXPROCS(threads)
			runStages(g, o.Op, params, slices.Clone(a))
			runtime.GOMAXPROCS(before)
			if want == nil {
				want = got
			}
			for i := range want {
				require.Equal(g, values(want[i]), values(got[i]), "%d threads, %d", threads, i)
			}
		}
	}
	check(t, property)
	require.Len(t, seen, 3)
}

// Units are heads only where these occupy all threads and a schedule would not give all to one.
func TestAttentionForms(t *testing.T) {
	for _, c := range []struct {
		heads, group, d, keys, threads int
		wants                          attentionForm
	}{
		{8, 2, 128, 128, 8, byHeads},
		{8, 2, 128, 129, 8, byPieces},
		{8, 2, 128, headKeys, 2, byHeads},
		{8, 2, 128, headKeys + 1, 2, byPieces},
		{8, 2, 128, 100, 3, byPieces},
		{8, 2, 128, columnKeys, 16, byColumns},
		{8, 2, 128, columnKeys + 1, 16, byPieces},
		{6, 1, 64, 128, 2, byHeads},
		{6, 1, 64, 129, 2, byPieces},
		{6, 1, 64, headKeys, 1, byHeads},
	} {
		step := &attentionStep{heads: c.heads, group: c.group, d: c.d, dv: c.d}
		require.Equal(t, c.wants, step.formFor(c.keys, c.threads), "%+v", c)
	}
}
