package optest

import "github.com/kompute-go/kompute-go/internal/array"

// build computes a result element by element, in row-major order.
func build(shape []int, f func(at []int) float64) []float64 {
	out := make([]float64, 0, size(shape))
	at := make([]int, len(shape))
	for range cap(out) {
		out = append(out, f(at))
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < shape[k] {
				break
			}
			at[k] = 0
		}
	}
	return out
}

// elements returns a function that reads an array at an index.
func elements(a array.Array) func(at []int) float64 {
	get := getter(a)
	return func(at []int) float64 {
		i := a.Offset
		for k, n := range at {
			i += n * a.Strides[k]
		}
		return get(i)
	}
}

// valueOf converts a number to an element, as setter stores it.
func valueOf[T array.Element](v float64) T {
	return array.Storage[T](dense(array.DTypeOf[T](), []float64{v}))[0]
}
