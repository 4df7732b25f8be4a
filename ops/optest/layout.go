package optest

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// must returns the layout, which cannot be wrong here.
func must(l array.Layout, err error) array.Layout {
	if err != nil {
		panic(fmt.Sprintf("optest: %v", err))
	}
	return l
}

// dense returns a contiguous array of values.
func dense(dtype array.DType, values []float64, shape ...int) array.Array {
	a := empty(dtype, must(array.Contiguous(shape...)), len(values))
	set := setter(a)
	for i, v := range values {
		set(i, v)
	}
	return a
}

// empty returns an array of n storage elements.
func empty(dtype array.DType, l array.Layout, n int) array.Array {
	a, err := array.New(dtype, n)
	if err != nil {
		panic(fmt.Sprintf("optest: %v", err))
	}
	a.Layout = l
	return a
}

// compact copies the elements of a view to contiguous storage.
func compact(a array.Array) array.Array {
	out := empty(a.DType, must(array.Contiguous(a.Shape...)), a.Size())
	size, n := a.DType.Size(), 0
	walk(a.Layout, func(i int) {
		copy(out.Data[n*size:(n+1)*size], a.Data[i*size:])
		n++
	})
	return out
}

// relayout stores the elements of a where l says, in storage of n elements.
// What lies between is filled with a pattern that would be seen in a result.
func relayout(a array.Array, l array.Layout, n int) array.Array {
	out := empty(a.DType, l, n)
	fill(out)
	src, size := compact(a), a.DType.Size()
	k := 0
	walk(l, func(i int) {
		copy(out.Data[i*size:(i+1)*size], src.Data[k*size:])
		k++
	})
	return out
}

// fill writes large values everywhere, which no test draws.
func fill(a array.Array) {
	set := setter(a)
	for i := range len(a.Data) / a.DType.Size() {
		set(i, 111)
	}
}

// layouts are the ways in which place stores an array.
var layouts = []string{"contiguous", "offset", "transposed", "padded", "strided", "inner"}

// place stores the elements of a in another layout.
func place(a array.Array, how string) array.Array {
	rank, shape := a.Rank(), a.Shape
	switch how {
	case "offset": // starts at an odd element
		l := must(array.Contiguous(shape...))
		l.Offset = 3
		return relayout(a, l, a.Size()+5)
	case "transposed": // axes stored in reverse
		reversed := make([]int, rank)
		for i, n := range shape {
			reversed[rank-1-i] = n
		}
		return relayout(a, must(must(array.Contiguous(reversed...)).Transpose()), a.Size())
	case "padded", "strided", "inner": // the storage is larger along the last axis, by steps along another, or both
		if rank == 0 {
			return place(a, "offset")
		}
		return placeSliced(a, how)
	}
	return compact(a)
}

func placeSliced(a array.Array, how string) array.Array {
	big := append([]int(nil), a.Shape...)
	last, step := len(big)-1, 1
	axis := 0
	switch how {
	case "padded":
		axis = last
	case "inner":
		axis, step = last, 2
	default:
		step = 3
	}
	big[axis] = big[axis]*step + 2
	l := must(array.Contiguous(big...))
	n := l.Size()
	l = must(l.Slice(axis, 1, 1+a.Shape[axis]*step, step))
	return relayout(a, l, n)
}

// repeat makes an axis of a view repeat its first entry, with stride 0.
func repeat(a array.Array, axis int) array.Array {
	if a.Shape[axis] < 1 {
		return a
	}
	shape := a.Shape
	a.Layout = must(must(a.Slice(axis, 0, 1, 1)).Broadcast(shape...))
	return a
}

// drawLayout stores a in a random layout; one in six repeats an axis.
func drawLayout(t *rapid.T, label string, a array.Array) array.Array {
	how := rapid.SampledFrom(append([]string{"repeated"}, layouts...)).Draw(t, label+" layout")
	if how == "repeated" {
		if a.Rank() == 0 {
			return a
		}
		return repeat(a, rapid.IntRange(0, a.Rank()-1).Draw(t, label+" repeated axis"))
	}
	return place(a, how)
}

// drawShape draws a shape whose size stays below limit, also after an axis of
// none has become longer.
func drawShape(t *rapid.T, label string, minRank, maxRank, limit int) []int {
	shape := make([]int, rapid.IntRange(minRank, maxRank).Draw(t, label+" rank"))
	n := 1
	for i := range shape {
		shape[i] = rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 6), rapid.IntRange(0, 70)).Draw(t, label)
		for n*shape[i] > limit && shape[i] > 1 {
			shape[i] = shape[i]/2 + shape[i]%2
		}
		n *= max(shape[i], 1)
	}
	return shape
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// source makes reproducible data.
type source struct{ *rand.Rand }

func drawSource(t *rapid.T) source { return newSource(rapid.Uint64().Draw(t, "seed")) }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 1))} }

// normal returns normally distributed floats.
func (r source) normal(dtype array.DType, scale float64, shape ...int) array.Array {
	values := make([]float64, size(shape))
	for i := range values {
		values[i] = r.NormFloat64() * scale
	}
	return dense(dtype, values, shape...)
}

// integers returns whole numbers of lo…hi.
func (r source) integers(dtype array.DType, lo, hi int, shape ...int) array.Array {
	values := make([]float64, size(shape))
	for i := range values {
		values[i] = float64(lo + r.IntN(hi-lo+1))
	}
	return dense(dtype, values, shape...)
}

// numbers returns what suits any type: small numbers, negative where it can.
func (r source) numbers(dtype array.DType, shape ...int) array.Array {
	switch dtype {
	case array.Bool:
		return r.integers(dtype, 0, 1, shape...)
	case array.Uint32, array.Uint8:
		return r.integers(dtype, 0, 100, shape...)
	case array.Int32:
		return r.integers(dtype, -100, 100, shape...)
	}
	return r.normal(dtype, 2, shape...)
}

var (
	floatTypes   = []array.DType{array.Float32, array.Float16, array.BFloat16}
	numberTypes  = append(floatTypes[:3:3], array.Int32, array.Uint32)
	elementTypes = append(numberTypes[:5:5], array.Bool, array.Uint8)
)

func drawType(t *rapid.T, label string, types []array.DType) array.DType {
	return rapid.SampledFrom(types).Draw(t, label)
}
