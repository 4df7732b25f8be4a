package ops

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// Reduction is a kind of reduction whose result may have another element type than its operand: see
// [ReduceAs].
type Reduction int

// The reductions of [ReduceAs].
const (
	ReduceSum  Reduction = Reduction(opdef.ReduceSum)
	ReduceMean Reduction = Reduction(opdef.ReduceMean)
	ReduceProd Reduction = Reduction(opdef.ReduceProd)
)

// reducedType returns the element type of a reduction's result.
func reducedType(kind Reduction, x array.DType) array.DType {
	switch {
	case kind == ReduceMean && !x.IsFloat():
		return array.Float32
	case kind != ReduceMean && x == array.Bool:
		return array.Int32
	case kind != ReduceMean && x == array.Uint8:
		return array.Uint32
	}
	return x
}

// ReduceAs reduces the elements of x along the given [Axes], or all of them, to
// elements of R, for those types that cannot hold the result themselves:
//
//	count := ops.ReduceAs[int32](s, ops.ReduceSum, mask)
//
// Sums and products of bools are int32 and those of uint8s are uint32, as in MLX: a sum counts true
// elements, and a product is 1 if all are true. The mean of integers and bools is float32, to a few
// units in the last place. (MLX's sum of int32s wraps around before it is divided.) For other types
// R is x's type, as in [Sum], [Prod] and [Mean].
//
// # Errors
//
// Those of Sum; ErrDType for another R, and ErrInvalid for another reduction.
func ReduceAs[R, T kompute.Element](s *kompute.Stream, kind Reduction, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[R] {
	want, got := reducedType(kind, array.DTypeOf[T]()), array.DTypeOf[R]()
	known := kind == ReduceSum || kind == ReduceMean || kind == ReduceProd
	if known && want == got {
		return reduce[R](s, opdef.ReduceKind(kind), x, false, options)
	}
	c := newCall(s, opdef.Reduce.Op)
	input(c, opdef.Reduce.X, x)
	if !known {
		c.fail(kompute.ErrInvalid, "there is no reduction %d", int(kind))
		return kompute.Failed[R](s, c.err)
	}
	c.named(opdef.ReduceKind(kind).String())
	c.fail(kompute.ErrDType, "the result for %v is %v, not %v", array.DTypeOf[T](), want, got)
	return kompute.Failed[R](s, c.err)
}
