package fallback

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

var (
	floatTypes = []array.DType{array.Float32, array.Float16, array.BFloat16}
	intTypes   = []array.DType{array.Int32, array.Uint32, array.Uint8}
	allTypes   = []array.DType{array.Float32, array.Float16, array.BFloat16, array.Int32, array.Uint32, array.Bool, array.Uint8}
)

// forLevels runs a test with every instruction set of this processor.
func forLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, level := range simd.Levels() {
		t.Run(level.String(), func(t *testing.T) {
			defer simd.Use(simd.Use(level))
			f(t)
		})
	}
}

// check runs a property with every instruction set.
func check(t *testing.T, property func(g *gen)) {
	t.Helper()
	forLevels(t, func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			seed := rapid.Uint64().Draw(r, "seed")
			property(&gen{TestingT: r, rapid: r, rng: rand.New(rand.NewPCG(seed, 1))})
		})
	})
}

// sample runs a property a few times with every instruction set, for properties
// that are tested in many cases.
func sample(t *testing.T, property func(g *gen)) {
	t.Helper()
	forLevels(t, func(t *testing.T) {
		for seed := range uint64(2) {
			property(&gen{TestingT: t, rng: rand.New(rand.NewPCG(seed, 2))})
		}
	})
}

// getAt reads a storage element.
func getAt(a array.Array, i int) float64 {
	switch a.DType {
	case array.Float32:
		return float64(array.Storage[float32](a)[i])
	case array.Float16:
		return float64(array.Storage[array.F16](a)[i].Float32())
	case array.BFloat16:
		return float64(array.Storage[array.BF16](a)[i].Float32())
	case array.Int32:
		return float64(array.Storage[int32](a)[i])
	case array.Uint32:
		return float64(array.Storage[uint32](a)[i])
	default:
		return float64(a.Data[i])
	}
}

// setAt writes a storage element; integers wrap around.
func setAt(a array.Array, i int, v float64) {
	switch a.DType {
	case array.Float32:
		array.Storage[float32](a)[i] = float32(v)
	case array.Float16:
		array.Storage[array.F16](a)[i] = array.F16FromFloat32(float32(v))
	case array.BFloat16:
		array.Storage[array.BF16](a)[i] = array.BF16FromFloat32(float32(v))
	case array.Int32:
		array.Storage[int32](a)[i] = int32(int64(v))
	case array.Uint32:
		array.Storage[uint32](a)[i] = uint32(int64(v))
	case array.Bool:
		a.Data[i] = toByte(v != 0)
	default:
		a.Data[i] = uint8(int64(v))
	}
}

// dense copies an array to a contiguous one.
func dense(t require.TestingT, a array.Array) array.Array {
	if !a.Present() {
		return a
	}
	out, err := array.New(a.DType, a.Shape...)
	require.NoError(t, err)
	require.NoError(t, Copy(a, out))
	return out
}

// requireBits checks that contiguous operands gave exactly the same result.
func requireBits(t require.TestingT, got, again array.Array) {
	if !slices.Equal(dense(t, got).Data, again.Data) {
		require.Failf(t, "views and their copies differ", "%v and %v", values(got), values(again))
	}
}

// agree runs an op into out. It must write only the elements of out, give the
// same bits for contiguous copies of everything, and agree with plain Go: to the
// bit if tolerance is 0, else as in [gen.likeGeneric]. ops/optest tests whether
// the results are right.
func (g *gen) agree(op func(in []array.Array, out array.Array) error, out array.Array, tolerance, scale float64, in ...array.Array) {
	copies := g.sameForCopies(op, out, in)
	if simd.Active() != simd.Generic {
		g.likeGeneric(op, out, tolerance, scale, copies)
	}
}

// sameForCopies is the part of agree without plain Go. It returns the copies of the operands.
func (g *gen) sameForCopies(op func(in []array.Array, out array.Array) error, out array.Array, in []array.Array) []array.Array {
	again, copies := dense(g, out), g.copies(in)
	require.NoError(g, op(in, out))
	untouched(g, out)
	require.NoError(g, op(copies, again))
	requireBits(g, out, again)
	return copies
}

// likeGeneric compares an op's result with that of plain Go for the same operands,
// which are contiguous: to the bit if tolerance is 0, else as in requireWithin,
// with one more rounding since both results are rounded.
func (g *gen) likeGeneric(op func(in []array.Array, out array.Array) error, got array.Array, tolerance, scale float64, in []array.Array) {
	want := g.generic(op, got, in)
	if tolerance == 0 {
		requireSame(g, want, got)
		return
	}
	requireWithin(g, want, got, tolerance, scale, 2)
}

// generic returns the result of plain Go for these operands, in an array like got.
func (g *gen) generic(op func(in []array.Array, out array.Array) error, got array.Array, in []array.Array) []float64 {
	defer simd.Use(simd.Use(simd.Generic))
	plain := dense(g, got)
	require.NoError(g, op(in, plain))
	return values(plain)
}

// copies makes contiguous copies of operands.
func (g *gen) copies(in []array.Array) []array.Array {
	out := make([]array.Array, len(in))
	for i, a := range in {
		out[i] = dense(g, a)
	}
	return out
}

// values reads an array in row-major order.
func values(a array.Array) []float64 {
	out := make([]float64, 0, a.Size())
	each(a.Shape, func(at []int) { out = append(out, getAt(a, elementAt(&a, at))) })
	return out
}

// each visits the indices of a shape in row-major order.
func each(shape []int, f func(at []int)) {
	if slices.Contains(shape, 0) {
		return
	}
	at := make([]int, len(shape))
	for {
		f(at)
		axis := len(shape) - 1
		for ; axis >= 0; axis-- {
			if at[axis]++; at[axis] < shape[axis] {
				break
			}
			at[axis] = 0
		}
		if axis < 0 {
			return
		}
	}
}

// value reads the element at given indices.
func value(a array.Array, at ...int) float64 { return getAt(a, elementAt(&a, at)) }

// rounding is the relative error of rounding to a type.
func rounding(d array.DType) float64 {
	switch d {
	case array.Float16:
		return 0x1p-11
	case array.BFloat16:
		return 0x1p-8
	}
	return 0x1p-24
}

// requireWithin compares with numbers computed in float64. tolerance is the error
// relative to scale that float32 arithmetic may make; storing adds that many
// roundings of the type.
func requireWithin(t require.TestingT, want []float64, got array.Array, tolerance, scale, roundings float64) {
	requireNear(t, want, got, roundings, func(i int) float64 { return tolerance * max(scale, math.Abs(want[i])) })
}

// requireNear is requireWithin where limit returns the error that arithmetic may make in element i.
func requireNear(t require.TestingT, want []float64, got array.Array, roundings float64, limit func(i int) float64) {
	for i, g := range values(got) {
		w := want[i]
		if got.DType == array.Float16 && math.Abs(w) >= 65520 {
			w = math.Copysign(math.Inf(1), w)
		}
		if math.IsNaN(w) || math.IsInf(w, 0) {
			require.Truef(t, math.IsNaN(w) && math.IsNaN(g) || g == w, "element %d of %v: want %v, got %v", i, got.Shape, w, g)
			continue
		}
		limit := limit(i) + 1.01*roundings*rounding(got.DType)*math.Abs(w) + 1e-7
		if !(math.Abs(g-w) <= limit) {
			require.Failf(t, "not close", "element %d of %v %v: want %v, got %v, limit %v", i, got.DType, got.Shape, w, g, limit)
		}
	}
}

// requireSame compares exactly; NaNs are equal.
func requireSame(t require.TestingT, want []float64, got array.Array) {
	for i, g := range values(got) {
		if w := want[i]; w != g && !(math.IsNaN(w) && math.IsNaN(g)) {
			require.Failf(t, "not the same", "element %d of %v %v: want %v, got %v", i, got.DType, got.Shape, w, g)
		}
	}
}

// untouched checks that an op wrote nothing but the elements of out.
func untouched(t require.TestingT, out array.Array) {
	n := len(out.Data) / out.DType.Size()
	mine := make([]bool, n)
	each(out.Shape, func(at []int) { mine[elementAt(&out, at)] = true })
	junk, _ := array.New(out.DType, 1)
	setAt(junk, 0, 77)
	for i := range n {
		if !mine[i] && getAt(out, i) != getAt(junk, 0) {
			require.Failf(t, "written outside", "element %d is not of the output", i)
		}
	}
}

// must makes a contiguous array for tests of single cases.
func must[T array.Element](t testing.TB, data []T, shape ...int) array.Array {
	a, err := array.Of(data, shape...)
	require.NoError(t, err)
	return a
}
