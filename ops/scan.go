package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var scanCPU = onCPU(func(a []array.Array, p *opdef.ScanParams) error {
	return fallback.Scan(p.Kind, at(a, opdef.Scan.X), at(a, opdef.Scan.Out), fallback.ScanParams{Axis: int(p.Axis), Exclusive: p.Exclusive != 0, Reverse: p.Reverse != 0})
})

// ScanOption changes which elements [CumSum] and [CumProd] include.
type ScanOption func(*opdef.ScanParams)

// Exclusive leaves each element out of its own result, which begins with 0 for
// sums and with 1 for products.
func Exclusive() ScanOption { return func(p *opdef.ScanParams) { p.Exclusive = 1 } }

// Reverse runs from the end of the axis to its start.
func Reverse() ScanOption { return func(p *opdef.ScanParams) { p.Reverse = 1 } }

// CumSum returns the running sums of x along one axis (negative counts from the
// end), as MLX's and NumPy's cumsum, in x's shape: for [1, 2, 3] it is [1, 3,
// 6], with [Exclusive] [0, 1, 3], and with [Reverse] [6, 5, 3].
//
// Floats are added in float32, in a tree that depends on the axis's length alone,
// and rounded once; integers wrap around. For bools, Cast them to int32 first,
// which is the type that MLX gives them.
//
// # Errors
//
// ErrShape if there is no such axis.
func CumSum[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T], axis int, options ...ScanOption) *kompute.Tensor[T] {
	return scan(s, opdef.ScanSum, "cum_sum", x, axis, options)
}

// CumProd returns the running products of x along one axis, as CumSum does the sums: for [1, 2, 3]
// it is [1, 2, 6], with Exclusive [1, 1, 2], and with Reverse [6, 6, 3]. Whether an intermediate
// product overflows depends on the order. Errors are those of CumSum.
func CumProd[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T], axis int, options ...ScanOption) *kompute.Tensor[T] {
	return scan(s, opdef.ScanProd, "cum_prod", x, axis, options)
}

func scan[T Arithmetic](s *kompute.Stream, kind opdef.ScanKind, label string, x *kompute.Tensor[T], axis int, options []ScanOption) *kompute.Tensor[T] {
	c := newCall(s, opdef.Scan.Op)
	c.named(label)
	l := input(c, opdef.Scan.X, x)
	axis = c.axis(l, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	params := opdef.ScanParams{Axis: uint32(axis), Kind: kind}
	for _, set := range options {
		if set != nil {
			set(&params)
		}
	}
	return result[T](c, l.Shape, params, scanCPU)
}
