package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// Stages describes how a call of a region is run: as loops, one after another,
// by workers that stay between them. Fused ops exist only in this form.
type Stages struct {
	Loops []Loop
	// Scratch is the number of float32 numbers that the loops pass on to one another.
	Scratch int
	// Make makes the loops for arrays with memory. It keeps them, and scratch.
	Make func(arrays []array.Array, scratch []float32) ([]workers.Part, error)
}

// Loop describes one loop of a call.
type Loop struct {
	Kernel string
	// First is the index of its first operand among the op's: it touches those up to
	// the next loop's First, and also reads those in Also.
	First int
	Also  []int
}

// Touches reports whether loop i touches an operand.
func (s *Stages) Touches(i, operand int) bool {
	return s.Owns(i, operand) || slices.Contains(s.Loops[i].Also, operand)
}

// Owns reports whether loop i does what the op does to an operand; others only read it.
func (s *Stages) Owns(i, operand int) bool {
	return operand >= s.Loops[i].First && (i+1 == len(s.Loops) || operand < s.Loops[i+1].First)
}

// StagesOf returns the stages of a call, whose arrays need no memory yet, or nil if
// the op has none and must be run by its function.
func StagesOf(name string, arrays []array.Array, params []byte) *Stages {
	switch name {
	case opdef.Projection.Name:
		return projectionStages(arrays, opdef.ParamsOf[opdef.ProjectionParams](params))
	case opdef.AttentionStep.Name:
		return attentionStepStages(arrays, opdef.ParamsOf[opdef.AttentionStepParams](params))
	case opdef.AttentionProjection.Name:
		return attentionProjectionStages(arrays, opdef.ParamsOf[opdef.AttentionProjectionParams](params))
	case opdef.PagedHeads.Name:
		return pagedHeadsStages(opdef.ParamsOf[opdef.PagedHeadsParams](params))
	case opdef.PagedSDPA.Name:
		return pagedSDPAStages(arrays, opdef.ParamsOf[opdef.PagedSDPAParams](params))
	case opdef.PagedStep.Name:
		return pagedStepStages(opdef.ParamsOf[opdef.PagedStepParams](params))
	case opdef.QuantizedGather.Name:
		return quantizedGatherStages(opdef.ParamsOf[opdef.QuantizedGatherParams](params))
	case opdef.QuantizedMatMul.Name:
		return productStages(arrays, opdef.ParamsOf[opdef.QuantizedMatMulParams](params))
	}
	return nil
}

// Supports reports why a fused op cannot take these arrays, which need no memory, or
// nil. Its loops walk rows, and would misread other views.
func Supports(name string, arrays []array.Array, params []byte) error {
	c := checker{op: name}
	switch name {
	case opdef.Projection.Name:
		c.projection(arrays, opdef.ParamsOf[opdef.ProjectionParams](params))
	case opdef.PagedHeads.Name:
		c.pagedHeads(arrays, opdef.ParamsOf[opdef.PagedHeadsParams](params))
	case opdef.PagedStep.Name:
		c.pagedStep(arrays, opdef.ParamsOf[opdef.PagedStepParams](params))
	case opdef.AttentionStep.Name:
		c.attentionStep(arrays)
	case opdef.AttentionProjection.Name:
		c.attentionStep(arrays)
		o := &opdef.AttentionProjection
		c.asRow("residual", &arrays[o.Residual.Index])
		c.asRow("out", &arrays[o.Out.Index])
	}
	return c.err
}

// asRow checks that the elements of a, if it is present, have a constant stride, that
// of the last axis.
func (c *checker) asRow(name string, a *array.Array) {
	if a.Present() && !a.IsContiguous() && a.Size() != a.Dim(-1) {
		c.fail("%s of shape %v and strides %v is no row", name, a.Shape, a.Strides)
	}
}

// asRows checks the same for an array of that many rows.
func (c *checker) asRows(name string, a *array.Array, rows int) {
	if c.asRow(name, a); c.err == nil && rows > 1 && a.Present() && !a.IsContiguous() {
		c.fail("%s of shape %v and strides %v is not contiguous", name, a.Shape, a.Strides)
	}
}

// lane is the memory of one worker for the stages of a region.
type lane struct {
	prepared preparedRows
	space    []float32
	angles   rotations
}

// laneOf returns the worker's memory, with room for n numbers.
func laneOf(c *workers.Context, n int) *lane {
	l, ok := c.Local.(*lane)
	if !ok {
		l = &lane{}
		c.Local = l
	}
	l.space = grown(l.space, n)
	return l
}

// roundFloats rounds numbers to a float type.
func roundFloats(dtype array.DType, x []float32) {
	narrow, widen := simd.ToF16, simd.FromF16
	switch dtype {
	case array.Float32:
		return
	case array.BFloat16:
		narrow, widen = simd.ToBF16, simd.FromBF16
	}
	var buf [halfBlock]uint16
	for i := 0; i < len(x); i += halfBlock {
		part := x[i:min(i+halfBlock, len(x))]
		narrow(buf[:len(part)], part)
		widen(part, buf[:len(part)])
	}
}
