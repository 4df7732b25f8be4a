package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// attentionProjectionStages are the stages of attention of one new token,
// followed by the product of its result with one matrix, which combines the
// parts of attention.
func attentionProjectionStages(a []array.Array, op opdef.AttentionProjectionParams) *Stages {
	o := &opdef.AttentionProjection
	product := Loop{Kernel: opdef.Projection.Name, First: o.Residual.Index, Also: []int{o.KeyLength.Index}}
	s := &Stages{Loops: []Loop{{Kernel: opdef.AttentionStep.Name}, product}, Scratch: stepScratch(a)}
	s.Make = func(a []array.Array, scratch []float32) ([]workers.Part, error) {
		t, err := newAttentionStep(a, op.Step, scratch)
		if err != nil {
			return nil, err
		}
		p := &projection{op: op.Projection, dtype: t.dtype, rows: 1, gain: &array.Array{}, residual: &a[o.Residual.Index]}
		p.row = func(_ int, buf []float32) []float32 {
			for head := range t.queries {
				t.join(head, buf[head*t.dv:(head+1)*t.dv])
			}
			return buf[:t.queries*t.dv]
		}
		if err := p.add(a[o.W.Index], a[o.Scales.Index], a[o.Biases.Index], a[o.Out.Index]); err != nil {
			return nil, err
		}
		return append([]workers.Part{t.part()}, p.parts()...), nil
	}
	return s
}
