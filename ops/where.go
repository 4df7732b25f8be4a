package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func whereCPU(a []array.Array, _ []byte) error {
	return fallback.Where(at(a, opdef.Where.Condition), at(a, opdef.Where.A), at(a, opdef.Where.B), at(a, opdef.Where.Out))
}

// Where picks a's element where the condition is true, else b's, with its exact
// bits. All three broadcast against each other, as for Add; a Scalar fits any
// shape:
//
//	masked := ops.Where(s, mask, scores, ops.Scalar(s, float32(-1e9)))
//
// # Errors
//
// ErrShape if the shapes do not broadcast.
func Where[T kompute.Element](s *kompute.Stream, condition *kompute.Tensor[bool], a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.Where.Op)
	input(c, opdef.Where.Condition, condition)
	input(c, opdef.Where.A, a)
	input(c, opdef.Where.B, b)
	return result[T](c, c.broadcast(opdef.Where.Condition, opdef.Where.A, opdef.Where.B), opdef.WhereParams{}, whereCPU)
}
