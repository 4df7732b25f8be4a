package optest

import (
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
)

// bound says how far a result may be off: Relative times the larger of |want|
// and Share of the largest |want| of all, plus Absolute.
type bound struct{ Relative, Share, Absolute float64 }

// defaultBound is that of ops which sum: about one rounding of the element type,
// two for 16-bit floats where the oracle is rounded too.
func defaultBound(dtype array.DType) bound {
	switch dtype {
	case array.Float16:
		return bound{1.1e-3, 1, 1.2e-7}
	case array.BFloat16:
		return bound{8.5e-3, 1, 1e-37}
	}
	return bound{1e-5, 1, 1e-37}
}

// pointwiseBound is that of ops which compute each element on its own.
func pointwiseBound(dtype array.DType) bound {
	b := defaultBound(dtype)
	b.Share = 0
	return b
}

// sumBound is that of sums of n products of the given magnitude, which may
// cancel: rounding errors of float32 add up like a random walk.
func sumBound(dtype array.DType, n int, magnitude float64) bound {
	b := defaultBound(dtype)
	b.Absolute += 3e-7 * math.Sqrt(float64(n)) * magnitude
	return b
}

// largest returns the largest finite magnitude.
func largest(values []float64) float64 {
	m := 0.0
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			m = max(m, math.Abs(v))
		}
	}
	return m
}

// comparison is what compare found.
type comparison struct {
	worst float64 // the largest error as a multiple of its bound
	why   string  // what is wrong, if anything
}

// compare compares a result with what it should be.
func compare(got, want []float64, exact bool, b bound) comparison {
	if len(got) != len(want) {
		return comparison{math.Inf(1), fmt.Sprintf("%d elements, want %d", len(got), len(want))}
	}
	at, bad, worst, most := -1, 0, 0.0, largest(want)
	for i, w := range want {
		off := excess(got[i], w, most, exact, b)
		if off > 1 {
			bad++
		}
		if off > worst {
			worst, at = off, i
		}
	}
	if worst <= 1 {
		return comparison{worst: worst}
	}
	return comparison{worst, fmt.Sprintf("element %d is %v, want %v: %.3g times the bound (%d of %d are off)", at, got[at], want[at], worst, bad, len(got))}
}

// withZeros adds to a comparison that zeros must have the same sign.
func (c comparison) withZeros(got, want []float64) comparison {
	for i, w := range want {
		if c.why == "" && w == 0 && math.Signbit(w) != math.Signbit(got[i]) {
			return comparison{math.Inf(1), fmt.Sprintf("element %d is %v, want %v", i, got[i], w)}
		}
	}
	return c
}

// excess is the error of an element as a multiple of what is allowed.
func excess(got, want, most float64, exact bool, b bound) float64 {
	switch {
	case got == want || math.IsNaN(got) && math.IsNaN(want):
		return 0
	case exact || math.IsNaN(got) || math.IsNaN(want) || math.IsInf(want, 0) || math.IsInf(got, 0):
		return math.Inf(1)
	}
	return math.Abs(got-want) / (b.Relative*max(math.Abs(want), b.Share*most) + b.Absolute)
}

// floats returns the elements in order, as float64; every type fits exactly.
func floats(a array.Array) []float64 {
	out := make([]float64, 0, a.Size())
	get := getter(a)
	walk(a.Layout, func(i int) { out = append(out, get(i)) })
	return out
}

// getter reads one element of the storage.
func getter(a array.Array) func(int) float64 {
	switch a.DType {
	case array.Float32:
		s := array.Storage[float32](a)
		return func(i int) float64 { return float64(s[i]) }
	case array.Float16:
		s := array.Storage[array.F16](a)
		return func(i int) float64 { return float64(s[i].Float32()) }
	case array.BFloat16:
		s := array.Storage[array.BF16](a)
		return func(i int) float64 { return float64(s[i].Float32()) }
	case array.Int32:
		s := array.Storage[int32](a)
		return func(i int) float64 { return float64(s[i]) }
	case array.Uint32:
		s := array.Storage[uint32](a)
		return func(i int) float64 { return float64(s[i]) }
	}
	return func(i int) float64 { return float64(a.Data[i]) } // bool and uint8
}

// setter writes one element of the storage, rounded to its type.
func setter(a array.Array) func(int, float64) {
	switch a.DType {
	case array.Float32:
		s := array.Storage[float32](a)
		return func(i int, v float64) { s[i] = float32(v) }
	case array.Float16:
		s := array.Storage[array.F16](a)
		return func(i int, v float64) { s[i] = array.F16FromFloat32(float32(v)) }
	case array.BFloat16:
		s := array.Storage[array.BF16](a)
		return func(i int, v float64) { s[i] = array.BF16FromFloat32(float32(v)) }
	case array.Int32:
		s := array.Storage[int32](a)
		return func(i int, v float64) { s[i] = int32(v) }
	case array.Uint32:
		s := array.Storage[uint32](a)
		return func(i int, v float64) { s[i] = uint32(v) }
	case array.Bool:
		return func(i int, v float64) {
			a.Data[i] = 0
			if v != 0 {
				a.Data[i] = 1
			}
		}
	}
	return func(i int, v float64) { a.Data[i] = uint8(v) }
}

// walk calls f with the storage index of every element, in row-major order.
func walk(l array.Layout, f func(index int)) {
	if l.Size() == 0 {
		return
	}
	at := make([]int, l.Rank())
	index := l.Offset
	for {
		f(index)
		k := l.Rank() - 1
		for ; k >= 0; k-- {
			at[k]++
			index += l.Strides[k]
			if at[k] < l.Shape[k] {
				break
			}
			index -= at[k] * l.Strides[k]
			at[k] = 0
		}
		if k < 0 {
			return
		}
	}
}
