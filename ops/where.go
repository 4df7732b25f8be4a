package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

func whereCPU(a []array.Array) error { return fallback.Where(a[0], a[1], a[2], a[3]) }

// Where picks a's element where the condition is true, else b's, bit by bit. All
// three broadcast against each other, as for Add; a Scalar goes with everything:
//
//	masked := ops.Where(s, mask, scores, ops.Scalar(s, float32(-1e9)))
//
// # Errors
//
// ErrShape if the shapes do not broadcast.
func Where[T kompute.Element](s *kompute.Stream, condition *kompute.Tensor[bool], a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, "where")
	input(&c, "condition", condition)
	input(&c, "a", a)
	input(&c, "b", b)
	return result[T](&c, c.broadcast(0), whereOp{}, whereCPU)
}
