package fusion

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// pagedHeads replaces the preparation of new tokens for attention over pages by
// paged_heads: RMSNorm of the query and key heads, rotary position embedding, and
// writing the new keys and values into their pages. The norms may be absent. Attention
// over one page, as of a session's prompt, may also be sdpa.
func pagedHeads(g *Graph) {
	g.all(func(id int, n *Node) {
		if reader, ok := readerOf(n); ok && !g.fusePagedHeads(id, reader, true) {
			g.fusePagedHeads(id, reader, false) // something else may read the normed heads
		}
	})
}

// pageReader is what attention reads: q [R, H, D], and the pages.
type pageReader struct{ q, keys, values Array }

func readerOf(n *Node) (r pageReader, ok bool) {
	if _, paged := as[opdef.PagedSDPAParams](n, opdef.PagedSDPA.Op); paged {
		o := &opdef.PagedSDPA
		return pageReader{n.at(o.Q), n.at(o.Keys), n.at(o.Values)}, true
	}
	o := &opdef.SDPA
	if _, is := as[opdef.SDPAParams](n, o.Op); !is {
		return r, false
	}
	r = pageReader{n.at(o.Q), n.at(o.K), n.at(o.V)}
	if r.q.Rank() != 4 || r.q.Dim(0) != 1 {
		return r, false
	}
	shape, strides := r.q.Shape, r.q.Strides
	r.q.Layout = array.Layout{Shape: []int{shape[2], shape[1], shape[3]}, Strides: []int{strides[2], strides[1], strides[3]}, Offset: r.q.Offset}
	return r, true
}

// tracePaged returns how the rows [R, H, D] of a query or key were made: by a
// rotation, perhaps with a norm before it.
func (g *Graph) tracePaged(reader int, x Array, norms bool) (h heads, ok bool) {
	rope, norm := &opdef.RoPE, &opdef.RMSNorm
	h.norm = none
	if x.Rank() != 3 {
		return h, false
	}
	if h.rope = g.makerOf(reader, x, rope.Op, rope.Out); h.rope == none {
		return h, false
	}
	from := g.nodes[h.rope].at(rope.X)
	// Each row must be a sequence of one step.
	if from.Dim(2) != 1 || from.Dim(0) != x.Dim(0) || from.Dim(1) != x.Dim(1) {
		return h, false
	}
	if norms {
		h.norm = g.makerOf(h.rope, from, norm.Op, norm.Out)
	}
	if h.norm != none {
		if from = g.nodes[h.norm].at(norm.X); from.Dim(-1) != x.Dim(2) {
			return h, false
		}
	}
	// They may be parts of wider rows, as where one product gives queries, keys and values.
	rows, err := from.Layout.Reshape(x.Shape...)
	if err != nil || rows.Strides[2] != 1 {
		return h, false
	}
	h.rows = from
	h.rows.Layout = rows
	return h, true
}

// makerOf returns the call of op that wrote exactly this data as its operand out.
func (g *Graph) makerOf(reader int, x Array, op opdef.Op, out opdef.Operand) int {
	made, ok := g.producer(reader, x)
	if !ok || g.nodes[made.node].Name != op.Name || made.operand != out.Index || !sameData(g.array(made), x) {
		return none
	}
	return made.node
}

// pagesUpdate returns the update of the pages, all of which attention reads.
func (g *Graph) pagesUpdate(reader int, pages Array) int {
	o := &opdef.PagedUpdate
	made, ok := g.producer(reader, pages)
	if !ok || g.nodes[made.node].Name != o.Name || !sameView(g.nodes[made.node].at(o.Pages), pages) {
		return none
	}
	return made.node
}

func (g *Graph) fusePagedHeads(id int, reader pageReader, norms bool) bool {
	u, r, f := &opdef.PagedUpdate, &opdef.RoPE, &opdef.PagedHeads
	keysID, valuesID := g.pagesUpdate(id, reader.keys), g.pagesUpdate(id, reader.values)
	if keysID == none || valuesID == none || keysID == valuesID || overlaps(reader.keys, reader.values) {
		return false
	}
	keys, values := g.nodes[keysID], g.nodes[valuesID]
	q, okQ := g.tracePaged(id, reader.q, norms)
	k, okK := g.tracePaged(keysID, keys.at(u.Rows), norms)
	if !okQ || !okK || !sameView(keys.at(u.Slots), values.at(u.Slots)) || !g.sameRotation(q, k) {
		return false
	}
	rope := g.nodes[q.rope]
	turn, _ := as[opdef.RoPEParams](rope, r.Op)
	op := opdef.PagedHeadsParams{Dims: turn.Dims, Traditional: turn.Traditional, Base: turn.Base, RopeScale: turn.Scale, Position: turn.Offset}
	fused := call(f.Op, op)
	if q.norm != none {
		norm, _ := as[opdef.RMSNormParams](g.nodes[q.norm], opdef.RMSNorm.Op)
		op.QNorm, op.QEps = 1, norm.Eps
		fused.set(f.QGain, g.nodes[q.norm].at(opdef.RMSNorm.Weight))
	}
	if k.norm != none {
		norm, _ := as[opdef.RMSNormParams](g.nodes[k.norm], opdef.RMSNorm.Op)
		op.KNorm, op.KEps = 1, norm.Eps
		fused.set(f.KGain, g.nodes[k.norm].at(opdef.RMSNorm.Weight))
	}
	fused.Params = call(f.Op, op).Params
	fused.set(f.Q, q.rows).set(f.K, k.rows).set(f.V, values.at(u.Rows)).set(f.Out, reader.q)
	fused.set(f.Position, rope.at(r.Offset)).set(f.Freqs, rope.at(r.Freqs)).set(f.Slots, keys.at(u.Slots))
	fused.set(f.Keys, keys.at(u.Pages)).set(f.Values, values.at(u.Pages))
	group := []int{q.norm, k.norm, q.rope, k.rope, keysID, valuesID}
	return g.replace(slices.DeleteFunc(group, func(id int) bool { return id == none }), fused)
}
