package fusion

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// pagedHeads replaces the preparation of new tokens for attention over pages by
// paged_heads: RMSNorm of the query and key heads, rotary position embedding, and
// writing the new keys and values into their pages. The norms may be absent.
func pagedHeads(g *Graph) {
	o := &opdef.PagedSDPA
	g.all(func(id int, n *Node) {
		if _, is := as[opdef.PagedSDPAParams](n, o.Op); is && !g.fusePagedHeads(id, true) {
			g.fusePagedHeads(id, false) // something else may read the normed heads
		}
	})
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

func (g *Graph) fusePagedHeads(id int, norms bool) bool {
	o, u, r, f := &opdef.PagedSDPA, &opdef.PagedUpdate, &opdef.RoPE, &opdef.PagedHeads
	sdpa := g.nodes[id]
	keysID, valuesID := g.pagesUpdate(id, sdpa.at(o.Keys)), g.pagesUpdate(id, sdpa.at(o.Values))
	if keysID == none || valuesID == none || keysID == valuesID || overlaps(sdpa.at(o.Keys), sdpa.at(o.Values)) {
		return false
	}
	keys, values := g.nodes[keysID], g.nodes[valuesID]
	q, okQ := g.tracePaged(id, sdpa.at(o.Q), norms)
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
	fused.set(f.Q, q.rows).set(f.K, k.rows).set(f.V, values.at(u.Rows)).set(f.Out, sdpa.at(o.Q))
	fused.set(f.Position, rope.at(r.Offset)).set(f.Freqs, rope.at(r.Freqs)).set(f.Slots, keys.at(u.Slots))
	fused.set(f.Keys, keys.at(u.Pages)).set(f.Values, values.at(u.Pages))
	group := []int{q.norm, k.norm, q.rope, k.rope, keysID, valuesID}
	return g.replace(slices.DeleteFunc(group, func(id int) bool { return id == none }), fused)
}
