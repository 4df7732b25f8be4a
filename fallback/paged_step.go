package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// pagedStepStages are the stages of paged_step, the fused op of that name in csrc/ops/ops.def:
// paged_sdpa whose units prepare their heads themselves.
func pagedStepStages(op opdef.PagedStepParams) *Stages {
	o := &opdef.PagedStep
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	s.Make = func(a []array.Array, _ []float32) ([]workers.Part, error) {
		at := func(x opdef.Operand) *array.Array { return &a[x.Index] }
		heads := newPagedHeads(a, op.Heads)
		heads.out = nil // each unit keeps its queries
		p := &pagedAttention{
			q: at(o.Q), keys: at(o.Keys), values: at(o.Values), table: at(o.Table),
			sequences: at(o.Sequences), lengths: at(o.Lengths), out: at(o.Out), scale: op.Scale,
			newHeads: heads,
		}
		return []workers.Part{p.part()}, nil
	}
	return s
}

// meetsOther reports whether another new token is of the row's sequence. Whether the row would see
// that token would depend on which of them comes first.
func (p *pagedAttention) meetsOther(row int) bool {
	for other := range p.q.Shape[0] {
		if _, isNew := p.newHeads.slotOf(other); other != row && isNew && p.sequenceOf(other) == p.sequenceOf(row) {
			return true
		}
	}
	return false
}

// pagedStep checks what the loops assume.
func (c *checker) pagedStep(a []array.Array, op opdef.PagedStepParams) {
	o := &opdef.PagedStep
	heads := append(slices.Clone(a[:o.Table.Index]), a[o.Q.Index]) // whose result has the shape of q
	c.pagedHeads(heads, op.Heads)
	q, out := &a[o.Q.Index], &a[o.Out.Index]
	c.rank("out", out, 3)
	c.rank("table", &a[o.Table.Index], 2)
	if c.err != nil {
		return
	}
	c.dtype("out", out, q.DType)
	c.shape("out", out, []int{q.Shape[0], q.Shape[1], a[o.V.Index].Shape[2]})
	if c.err == nil && (a[o.K.Index].Shape[1] == 0 || q.Shape[1]%a[o.K.Index].Shape[1] != 0) {
		c.fail("%d query heads for %d", q.Shape[1], a[o.K.Index].Shape[1])
	}
}
