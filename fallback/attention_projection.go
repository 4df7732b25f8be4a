package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// attentionProjectionStages are the stages of attention of one new token,
// followed by the product of its result with one matrix.
func attentionProjectionStages(a []array.Array, op opdef.AttentionProjectionParams) *Stages {
	o := &opdef.AttentionProjection
	loops := []Loop{{Kernel: opdef.AttentionStep.Name}, partsLoop(o.Residual.Index), {Kernel: opdef.Projection.Name, First: o.Residual.Index}}
	s := &Stages{Loops: loops, Scratch: stepScratch(a)}
	s.Make = func(a []array.Array, scratch []float32) ([]workers.Part, error) {
		t, err := newAttentionStep(a, op.Step, scratch)
		if err != nil {
			return nil, err
		}
		x, err := array.Of(t.joined, len(t.joined))
		if err != nil {
			return nil, err
		}
		p := projectionOf(&x, op.Projection)
		p.dtype, p.residual = t.dtype, &a[o.Residual.Index]
		if err := p.add(a[o.W.Index], a[o.Scales.Index], a[o.Biases.Index], a[o.Out.Index]); err != nil {
			return nil, err
		}
		return append([]workers.Part{t.part(), t.results()}, p.parts()...), nil
	}
	return s
}
