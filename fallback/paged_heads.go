package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// pagedHeads prepares the heads of new tokens for attention over pages: the fused
// op of that name in csrc/ops/ops.def, and a part of paged_step. A unit of its loop is all heads of
// a row, which share its angles. The results are those of the ops that it replaces.
type pagedHeads struct {
	op                            opdef.PagedHeadsParams
	q, k, v, qGain, kGain, out    *array.Array
	position, freqs, slots        *array.Array
	keys, values                  *array.Array
	waves                         ropeWaves
	ofQueries, ofKeys             headPreparation
	rows, queries, heads, d, half int
}

func pagedHeadsStages(op opdef.PagedHeadsParams) *Stages {
	o := &opdef.PagedHeads
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	s.Make = func(a []array.Array, _ []float32) ([]workers.Part, error) {
		return []workers.Part{newPagedHeads(a, op).part()}, nil
	}
	return s
}

func (h *pagedHeads) part() workers.Part {
	return workers.Part{Units: h.rows, Cost: float64((h.queries + 2*h.heads) * h.d), Run: h.run}
}

// pagedHeads checks what the loop assumes of operands that their own ops have accepted.
func (c *checker) pagedHeads(a []array.Array, op opdef.PagedHeadsParams) {
	o := &opdef.PagedHeads
	q, k, v := &a[o.Q.Index], &a[o.K.Index], &a[o.V.Index]
	keys, values, slots := &a[o.Keys.Index], &a[o.Values.Index], &a[o.Slots.Index]
	for _, x := range []struct {
		name string
		of   *array.Array
		rank int
	}{{"q", q, 3}, {"k", k, 3}, {"v", v, 3}, {"out", &a[o.Out.Index], 3}} {
		c.rank(x.name, x.of, x.rank)
	}
	c.rank("slots", slots, 1)
	c.pages("keys", keys)
	c.pages("values", values)
	if c.err != nil {
		return
	}
	rows, heads, d := q.Shape[0], k.Shape[1], q.Shape[2]
	c.dtype("k", k, q.DType)
	c.shape("k", k, []int{rows, heads, d})
	c.shape("v", v, []int{rows, heads, CacheHead(values.DType, values.Shape[3])})
	c.shape("keys", keys, []int{keys.Shape[0], heads, keys.Shape[2], CacheRow(keys.DType, d)})
	c.shape("values", values, []int{keys.Shape[0], heads, keys.Shape[2], values.Shape[3]})
	c.shape("slots", slots, []int{rows})
	c.shape("out", &a[o.Out.Index], q.Shape)
	if op.Dims%2 != 0 || int(op.Dims) > d {
		c.fail("%d rotated elements in heads of %d", op.Dims, d)
	}
	if x := &a[o.Position.Index]; x.Present() && x.Size() != 1 && x.Size() != rows {
		c.fail("%d positions for %d rows", x.Size(), rows)
	}
}

func newPagedHeads(a []array.Array, op opdef.PagedHeadsParams) *pagedHeads {
	o := &opdef.PagedHeads
	at := func(x opdef.Operand) *array.Array { return &a[x.Index] }
	h := &pagedHeads{
		op: op, q: at(o.Q), k: at(o.K), v: at(o.V), qGain: at(o.QGain), kGain: at(o.KGain), out: at(o.Out),
		position: at(o.Position), freqs: at(o.Freqs), slots: at(o.Slots), keys: at(o.Keys), values: at(o.Values),
	}
	h.rows, h.queries, h.heads, h.d, h.half = h.q.Shape[0], h.q.Shape[1], h.k.Shape[1], h.q.Shape[2], int(op.Dims)/2
	h.waves = newRopeWaves(op.Base, int(op.Dims))
	h.ofQueries = headPreparation{norm: op.QNorm, gain: h.qGain, eps: op.QEps, traditional: op.Traditional != 0}
	h.ofKeys = headPreparation{norm: op.KNorm, gain: h.kGain, eps: op.KEps, traditional: op.Traditional != 0}
	return h
}

func (h *pagedHeads) run(c *workers.Context, lo, hi int) error {
	l := h.lane(c)
	for row := lo; row < hi; row++ {
		h.prefetchHeads(row, 0, h.heads)
		space := l.space
		head, angles := cut(&space, h.d), l.angles.of(row, h.positionOf(row))
		for i := range h.queries {
			h.ofQueries.set(head, h.q, elementAt(h.q, []int{row, i, 0}), h.q.Strides[2], angles, space)
			storeFloats(h.out, elementAt(h.out, []int{row, i, 0}), h.out.Strides[2], head)
		}
		for i := range h.heads {
			h.update(row, i, angles, space)
		}
	}
	return nil
}

// lane returns the worker's memory, with room for what preparing heads needs.
func (h *pagedHeads) lane(c *workers.Context) *lane {
	l := laneOf(c, 4*h.d+h.v.Shape[2])
	l.angles.use(h.waves.or(h.freqs, l.space[:h.half]))
	return l
}

// prepare sets queries [group, D] to those of a key head of a row, and puts its key and value into
// their place.
func (h *pagedHeads) prepare(l *lane, row, keyHead, group int, queries []float32) {
	h.prefetchHeads(row, keyHead, keyHead+1)
	angles := l.angles.of(row, h.positionOf(row))
	for i := range group {
		at := elementAt(h.q, []int{row, keyHead*group + i, 0})
		h.ofQueries.set(queries[i*h.d:][:h.d], h.q, at, h.q.Strides[2], angles, l.space)
	}
	h.update(row, keyHead, angles, l.space)
}

// slotOf returns the place of a row's key and value among those of all pages; ok is false if it has none.
func (h *pagedHeads) slotOf(row int) (slot int, ok bool) {
	slot = int(storage[int32](h.slots)[h.slots.Offset+row*h.slots.Strides[0]])
	return slot, slot >= 0 && slot < h.keys.Shape[0]*h.keys.Shape[2]
}

// update puts a key head and its value of a row into their place, if they have one.
func (h *pagedHeads) update(row, keyHead int, angles *rotation, space []float32) {
	slot, ok := h.slotOf(row)
	if !ok {
		return
	}
	page, token := slot/h.keys.Shape[2], slot%h.keys.Shape[2]
	head := cut(&space, h.d)
	h.ofKeys.set(head, h.k, elementAt(h.k, []int{row, keyHead, 0}), h.k.Strides[2], angles, space)
	storeHead(h.keys, page, keyHead, token, head)
	v := floats(h.v, elementAt(h.v, []int{row, keyHead, 0}), h.v.Strides[2], h.v.Shape[2], space)
	storeHead(h.values, page, keyHead, token, v)
}

// positionOf returns the row's position, scaled.
func (h *pagedHeads) positionOf(row int) float32 {
	at := int(h.op.Position)
	if h.position.Present() {
		at = int(storage[int32](h.position)[h.position.Offset+min(row, h.position.Size()-1)*h.position.Strides[0]])
	}
	return float32(at) * h.op.RopeScale
}
