package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func softmaxCPU(a []array.Array, _ []byte) error {
	return fallback.Softmax(at(a, opdef.Softmax.X), at(a, opdef.Softmax.Out))
}

// Softmax returns exp(x - max) / Σ exp(x - max) along the last axis: every row
// of x [..., N] becomes N weights between 0 and 1 that sum to 1. For [0, 0] it
// is [0.5, 0.5].
//
// A row that contains NaN or +Inf, or only -Inf, becomes all NaN.
//
// # Errors
//
// ErrShape for a tensor of rank 0.
func Softmax[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.Softmax.Op)
	l := input(c, opdef.Softmax.X, x)
	c.lastAxis("x", l)
	return result[T](c, l.Shape, opdef.SoftmaxParams{}, softmaxCPU)
}
