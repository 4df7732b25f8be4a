package optest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/array"
)

func has(list []string, s string) bool { return slices.Contains(list, s) }

func concat[T any](lists ...[]T) []T { return slices.Concat(lists...) }

// name names a case.
func name(dtype array.DType, label string, shape []int) string {
	out := dtype.String()
	if label != "" {
		out += "/" + label
	}
	if shape != nil {
		out += "/" + strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
	}
	return out
}

// round rounds exact results to what the type can hold, as the last step of an
// op does.
func round(dtype array.DType, exact []float64) []float64 {
	if !dtype.IsFloat() {
		return exact
	}
	return floats(dense(dtype, exact, len(exact)))
}

// rows calls f with each row along the last axis.
func rows(a array.Array, f func(row []float64)) {
	n := a.Dim(-1)
	all := floats(a)
	for ; len(all) >= n && n > 0; all = all[n:] {
		f(all[:n])
	}
}

// wide is an int beyond 32 bits. Where an int has no more, it wraps around to
// the other end of their range, which is to be refused as well.
func wide(v int64) int { return int(v) }
