package fallback

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// Kept angles are those of the row's position and of the waves in use, for rows that are kept and others.
func TestRotations(t *testing.T) {
	one, two := newRopeWaves(10000, 8), ropeWaves{waves: []float32{1, 2, 4, 8}, inverse: true}
	var r rotations
	for _, step := range []struct {
		waves    ropeWaves
		row      int
		position float32
	}{{one, 0, 0}, {one, 0, 5}, {one, 3, 5}, {two, 0, 5}, {two, mostRotations, 5}, {two, mostRotations + 1, 6}, {one, mostRotations + 1, 6}, {one, 3, 5}, {newRopeWaves(10000, 4), 3, 5}, {ropeWaves{}, 3, 5}} {
		r.use(step.waves)
		got := r.of(step.row, step.position)
		half := len(step.waves.waves)
		cos, sin := make([]float32, half), make([]float32, half)
		step.waves.angles(step.position, cos, sin)
		require.Equal(t, cos, got.cos[:half:half])
		require.Equal(t, sin, got.sin[:half:half])
		require.Len(t, got.cos, half)
	}
	require.Len(t, r.rows, 4)
}

// A worker that takes pieces of two ops of a step in turn uses the angles of each.
func TestAnglesOfTwoOps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const heads, d, rows = 8, 64, 3
	floats := func(shape ...int) array.Array {
		a, err := array.New(array.Float32, shape...)
		require.NoError(t, err)
		for i := range a.Size() {
			setAt(a, i, rng.NormFloat64())
		}
		return a
	}
	o, h := &opdef.AttentionStep, &opdef.PagedHeads
	a, b := make([]array.Array, len(o.Operands)), make([]array.Array, len(h.Operands))
	a[o.Q.Index], a[o.K.Index], a[o.V.Index] = floats(heads, d), floats(heads, d), floats(heads, d)
	a[o.Position.Index], a[o.Start.Index], a[o.KeyLength.Index] = must(t, []int32{90}, 1), must(t, []int32{0, 0, 90, 0}, 4), must(t, []int32{91}, 1)
	a[o.Keys.Index], a[o.Values.Index], a[o.Out.Index] = floats(1, heads, 100, d), floats(1, heads, 100, d), floats(heads, d)
	b[h.Q.Index], b[h.K.Index], b[h.V.Index] = floats(rows, heads, d), floats(rows, heads, d), floats(rows, heads, d)
	b[h.Position.Index], b[h.Slots.Index] = must(t, []int32{7, 8, 9}, rows), must(t, []int32{0, 1, 2}, rows)
	b[h.Keys.Index], b[h.Values.Index], b[h.Out.Index] = floats(1, heads, 16, d), floats(1, heads, 16, d), floats(rows, heads, d)
	attention := partsOf(t, o.Op, opdef.AttentionStepParams{Dims: d, Base: 10000, RopeScale: 1, Keys: 100, Scale: 0.3}, a)
	others := partsOf(t, h.Op, opdef.PagedHeadsParams{Dims: d, Base: 500, RopeScale: 1}, b)

	run := func(between func(*workers.Context)) []float64 {
		var c workers.Context
		units := attention[0].Size()
		for i := range units {
			require.NoError(t, attention[0].Run(&c, i, i+1))
			between(&c)
		}
		require.NoError(t, attention[1].Run(&c, 0, attention[1].Size()))
		return values(a[o.Out.Index])
	}
	want := run(func(*workers.Context) {})
	require.Equal(t, want, run(func(c *workers.Context) { require.NoError(t, others[0].Run(c, 0, rows)) }))
}

func partsOf[P any](t *testing.T, op opdef.Op, params P, arrays []array.Array) []workers.Part {
	t.Helper()
	s := StagesOf(op.Name, arrays, unsafe.Slice((*byte)(unsafe.Pointer(&params)), unsafe.Sizeof(params)))
	require.NotNil(t, s)
	parts, err := s.Make(arrays, make([]float32, s.Scratch))
	require.NoError(t, err)
	return parts
}
