package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// pagedStepStages are the stages of paged_step, the fused op of that name in
// csrc/ops/ops.def: paged_heads, which leaves the queries in scratch, and paged_sdpa
// with a key head and its query heads as a unit.
func pagedStepStages(a []array.Array, op opdef.PagedStepParams) *Stages {
	o := &opdef.PagedStep
	attention := Loop{Kernel: opdef.PagedSDPA.Name, First: o.Table.Index, Also: []int{o.Keys.Index, o.Values.Index}}
	s := &Stages{Loops: []Loop{{Kernel: opdef.PagedHeads.Name}, attention}, Scratch: a[o.Q.Index].Size()}
	s.Make = func(a []array.Array, scratch []float32) ([]workers.Part, error) {
		h := newPagedHeads(a, op.Heads)
		h.out, h.ready = nil, scratch
		at := func(x opdef.Operand) *array.Array { return &a[x.Index] }
		p := &pagedAttention{
			q: at(o.Q), ready: scratch, keys: at(o.Keys), values: at(o.Values), table: at(o.Table),
			sequences: at(o.Sequences), lengths: at(o.Lengths), out: at(o.Out), scale: op.Scale,
		}
		return []workers.Part{h.part(), p.part()}, nil
	}
	return s
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
