package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var padCPU = onCPU(func(a []array.Array, p *opdef.PadParams) error {
	if p.Edge != 0 {
		return fallback.PadEdge(at(a, opdef.Pad.X), at(a, opdef.Pad.Out), ints(p.Low))
	}
	return fallback.Pad(at(a, opdef.Pad.X), at(a, opdef.Pad.Out), ints(p.Low), p.Bits)
})

// Pad pads x with value. widths are the numbers of elements before and after,
// one pair for each axis, or one pair for all:
//
//	wide := ops.Pad(s, x, 0, [2]int{0, 0}, [2]int{1, 2}) // [2, 3] to [2, 6]
//
// # Errors
//
// ErrShape if there are neither 1 nor rank pairs; ErrInvalid if a width is
// negative; ErrTooLarge.
func Pad[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], value T, widths ...[2]int) *kompute.Tensor[T] {
	return pad(s, x, opdef.PadParams{Bits: bitsOf(value)}, widths)
}

// PadEdge repeats the first and last elements of each axis around x, as MLX's pad
// in mode "edge". widths are those of Pad.
//
// # Errors
//
// Those of Pad, and ErrShape if an axis has no elements to repeat.
func PadEdge[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], widths ...[2]int) *kompute.Tensor[T] {
	return pad(s, x, opdef.PadParams{Edge: 1}, widths)
}

func pad[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], params opdef.PadParams, widths [][2]int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Pad.Op)
	l := input(c, opdef.Pad.X, x)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	if len(widths) != 1 && len(widths) != l.Rank() {
		c.fail(kompute.ErrShape, "%d pairs of widths for rank %d", len(widths), l.Rank())
		return kompute.Failed[T](s, c.err)
	}
	shape := make([]int, l.Rank())
	for i, n := range l.Shape {
		w := widths[min(i, len(widths)-1)]
		switch {
		case w[0] < 0 || w[1] < 0:
			c.fail(kompute.ErrInvalid, "widths %v of axis %d", w, i)
		case w[0] > math.MaxInt32 || w[1] > math.MaxInt32:
			c.fail(kompute.ErrTooLarge, "widths %v of axis %d", w, i)
		case params.Edge != 0 && n == 0 && w != [2]int{}:
			c.fail(kompute.ErrShape, "axis %d of %v has no edge", i, l.Shape)
		}
		shape[i], params.Low[i] = c.sum(w[0], n, w[1]), uint32(w[0])
	}
	return result[T](c, shape, params, padCPU)
}
