package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var arangeCPU = onCPU(func(a []array.Array, p *opdef.ArangeParams) error {
	return fallback.Arange(at(a, opdef.Arange.Out), p.Start, p.Step)
})

// Countable is any element type that Arange supports.
type Countable interface {
	kompute.Number | uint8
}

// Arange returns the vector start, start+step, … up to, but excluding, stop, as
// MLX's and NumPy's arange. It has ⌈(stop-start)/step⌉ elements, or none:
//
//	positions := ops.Arange[int32](s, 0, 4, 1) // 0, 1, 2, 3
//
// For floats, element i is start + i*step in float32, rounded once to T. (MLX
// accumulates in T.) For integers, start and start+step are truncated first,
// and values outside the type's range wrap around.
//
// # Errors
//
// ErrInvalid if step is 0 or an argument is not a finite number; ErrTooLarge.
func Arange[T Countable](s *kompute.Stream, start, stop, step float64) *kompute.Tensor[T] {
	c := newCall(s, opdef.Arange.Op)
	n := math.Ceil((stop - start) / step)
	switch {
	case !finite(start) || !finite(stop) || !finite(step) || step == 0:
		c.fail(kompute.ErrInvalid, "from %v to %v by %v", start, stop, step)
	case n > maxElements:
		c.fail(kompute.ErrTooLarge, "from %v to %v by %v are more than %d elements", start, stop, step, uint32(maxElements))
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	var params opdef.ArangeParams
	if array.DTypeOf[T]().IsFloat() {
		params = opdef.ArangeParams{Start: math.Float32bits(float32(start)), Step: math.Float32bits(float32(step))}
	} else {
		first, second := wrapped(start), wrapped(start+step)
		params = opdef.ArangeParams{Start: first, Step: second - first}
	}
	return result[T](c, []int{int(max(n, 0))}, params, arangeCPU)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// wrapped truncates v to an integer and keeps its low bits.
func wrapped(v float64) uint32 { return uint32(int64(clamp(v, math.MinInt64/2, math.MaxInt64/2))) }
