package ops

import (
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// ArgMax returns the index of the largest element along one axis (negative
// counts from the end); the result has x's shape without that axis, or with
// length 1 there under [KeepDims]. The first of equal elements counts, and a
// NaN is larger than any number. For x [2, 3] = [[1, 5, 5], [7, 0, 2]] it is
// [1, 0] along axis -1 and [1, 0, 0] along axis 0.
//
// # Errors
//
// ErrShape if there is no such axis, or it has no elements and the result
// would have some; ErrInvalid for the option Axes, as there is only one axis.
func ArgMax[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], axis int, options ...ReduceOption) *kompute.Tensor[uint32] {
	return index(s, opdef.ReduceArgMax, x, axis, options)
}

// ArgMin returns the index of the smallest element along one axis, as ArgMax
// does of the largest; a NaN is smaller than any number, as in MLX.
func ArgMin[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], axis int, options ...ReduceOption) *kompute.Tensor[uint32] {
	return index(s, opdef.ReduceArgMin, x, axis, options)
}

// Greedy returns the index of the largest element of each row of logits [..., V]; the result [...]
// holds what [Sample] gives at temperature 0: the first of equal elements, and [NoToken] for a row
// with a NaN or +Inf, or without a finite element.
//
// # Errors
//
// ErrShape if logits has rank 0, or there are rows and they have no elements.
func Greedy[T kompute.Float](s *kompute.Stream, logits *kompute.Tensor[T]) *kompute.Tensor[uint32] {
	return index(s, opdef.ReduceGreedy, logits, -1, nil)
}

func index[T kompute.Element](s *kompute.Stream, kind opdef.ReduceKind, x *kompute.Tensor[T], axis int, options []ReduceOption) *kompute.Tensor[uint32] {
	var r reduction
	for _, set := range options {
		if set != nil {
			set(&r)
		}
	}
	if r.named {
		c := newCall(s, opdef.Reduce.Op)
		c.named(kind.String())
		input(c, opdef.Reduce.X, x)
		c.fail(kompute.ErrInvalid, "the option Axes cannot be used for an index along one axis")
		return kompute.Failed[uint32](s, c.err)
	}
	return reduce[uint32](s, kind, x, true, append(options[:len(options):len(options)], Axes(axis)))
}
