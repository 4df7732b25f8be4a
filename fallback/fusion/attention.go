package fusion

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// attention replaces the ops of one new token in the attention of a layer by
// attention_step: RMSNorm of the query and key heads, rotary position embedding,
// writing the new key and value into the cache, and attention over the cache.
// The norms and the rotation may be absent.
func attention(g *Graph) {
	o := &opdef.SDPA
	g.all(func(id int, n *Node) {
		op, is := as[opdef.SDPAParams](n, o.Op)
		if !is || n.at(o.Mask).Present() || n.at(o.Q).Dim(0) != 1 || n.at(o.Q).Dim(2) != 1 {
			return
		}
		if !g.fuseAttention(id, op, true) {
			g.fuseAttention(id, op, false) // something else may read the normed heads
		}
	})
}

// heads tells how a query or key was made: perhaps by a rotation, perhaps with
// a norm before it.
type heads struct {
	rows       Array // [H, D], as the projection wrote it
	rope, norm int
}

// maker returns the call of op that wrote exactly these rows as its operand out.
func (g *Graph) maker(reader int, rows Array, op opdef.Op, out opdef.Operand) int {
	made, ok := g.producer(reader, rows)
	if !ok || g.nodes[made.node].Name != op.Name || made.operand != out.Index || !sameRows(g.array(made), rows) {
		return none
	}
	return made.node
}

func (g *Graph) traceHeads(reader int, x Array, norms bool) (h heads, ok bool) {
	rope, norm := &opdef.RoPE, &opdef.RMSNorm
	h.norm = none
	if h.rope = g.maker(reader, x, rope.Op, rope.Out); h.rope != none {
		x = g.nodes[h.rope].at(rope.X)
		if x.Dim(2) != 1 { // its rows are not all at one position
			return h, false
		}
		reader = h.rope
	}
	if norms {
		h.norm = g.maker(reader, x, norm.Op, norm.Out)
	}
	if h.norm != none {
		x = g.nodes[h.norm].at(norm.X)
	}
	h.rows, ok = rowsOfHeads(x)
	return h, ok
}

// sameRotation reports whether both use the same angles, or neither is rotated.
func (g *Graph) sameRotation(q, k heads) bool {
	if q.rope == none || k.rope == none {
		return q.rope == k.rope
	}
	o := &opdef.RoPE
	a, b := g.nodes[q.rope], g.nodes[k.rope]
	x, _ := as[opdef.RoPEParams](a, o.Op)
	y, _ := as[opdef.RoPEParams](b, o.Op)
	if a.at(o.Offset).Present() {
		x.Offset, y.Offset = 0, 0
	}
	return x == y && sameOptional(a.at(o.Offset), b.at(o.Offset)) && sameOptional(a.at(o.Freqs), b.at(o.Freqs))
}

// cacheUpdate returns the update by one token of a cache [1, H, capacity, D], of
// which view is what attention reads as keys or values.
func (g *Graph) cacheUpdate(reader int, view Array) int {
	o := &opdef.SliceUpdate
	made, ok := g.producer(reader, view)
	if !ok || g.nodes[made.node].Name != o.Name || made.operand != o.Dst.Index {
		return none
	}
	cache, update := g.nodes[made.node].at(o.Dst), g.nodes[made.node].at(o.Update)
	if cache.Rank() != 4 || view.Rank() != 4 || update.Dim(2) != 1 || view.Dim(2) > cache.Dim(2) {
		return none
	}
	used := cache
	used.Shape = slices.Clone(cache.Shape)
	used.Shape[2] = view.Dim(2)
	if update.Dim(0) != cache.Dim(0) || update.Dim(1) != cache.Dim(1) || update.Dim(3) != cache.Dim(3) || !sameView(used, view) {
		return none
	}
	return made.node
}

// sameStart reports whether both updates start at the same place.
func sameStart(keys, values *Node) bool {
	o := &opdef.SliceUpdate
	a, _ := as[opdef.SliceUpdateParams](keys, o.Op)
	b, _ := as[opdef.SliceUpdateParams](values, o.Op)
	start := keys.at(o.Start)
	return sameOptional(start, values.at(o.Start)) && (start.Present() || a.Start[2] == b.Start[2]) &&
		keys.at(o.Dst).Dim(2) == values.at(o.Dst).Dim(2)
}

// stepParams returns the parameters of the fused op.
func (g *Graph) stepParams(q, k heads, keys *Node, sdpa opdef.SDPAParams, capacity int) opdef.AttentionStepParams {
	op := opdef.AttentionStepParams{Base: 1, RopeScale: 1, Keys: uint32(capacity), Scale: sdpa.Scale}
	if q.norm != none {
		norm, _ := as[opdef.RMSNormParams](g.nodes[q.norm], opdef.RMSNorm.Op)
		op.QNorm, op.QEps = 1, norm.Eps
	}
	if k.norm != none {
		norm, _ := as[opdef.RMSNormParams](g.nodes[k.norm], opdef.RMSNorm.Op)
		op.KNorm, op.KEps = 1, norm.Eps
	}
	if q.rope != none {
		rope, _ := as[opdef.RoPEParams](g.nodes[q.rope], opdef.RoPE.Op)
		op.Dims, op.Traditional, op.Base, op.RopeScale, op.Position = rope.Dims, rope.Traditional, rope.Base, rope.Scale, rope.Offset
	}
	update, _ := as[opdef.SliceUpdateParams](keys, opdef.SliceUpdate.Op)
	op.Start = update.Start[2]
	return op
}

func (g *Graph) fuseAttention(id int, op opdef.SDPAParams, norms bool) bool {
	o, u, s := &opdef.SDPA, &opdef.SliceUpdate, &opdef.AttentionStep
	sdpa := g.nodes[id]
	keysID, valuesID := g.cacheUpdate(id, sdpa.at(o.K)), g.cacheUpdate(id, sdpa.at(o.V))
	if keysID == none || valuesID == none || keysID == valuesID {
		return false
	}
	keys, values := g.nodes[keysID], g.nodes[valuesID]
	q, okQ := g.traceHeads(id, sdpa.at(o.Q), norms)
	k, okK := g.traceHeads(keysID, keys.at(u.Update), norms)
	v, okV := rowsOfHeads(values.at(u.Update))
	out, okOut := rowsOfHeads(sdpa.at(o.Out))
	if !okQ || !okK || !okV || !okOut || !sameStart(keys, values) || !g.sameRotation(q, k) || overlaps(keys.at(u.Dst), values.at(u.Dst)) {
		return false
	}
	step := call(s.Op, g.stepParams(q, k, keys, op, sdpa.at(o.K).Dim(2)))
	step.set(s.Q, q.rows).set(s.K, k.rows).set(s.V, v).set(s.Out, out)
	step.set(s.Keys, keys.at(u.Dst)).set(s.Values, values.at(u.Dst)).set(s.Start, keys.at(u.Start)).set(s.KeyLength, sdpa.at(o.KeyLength))
	if q.norm != none {
		step.set(s.QGain, g.nodes[q.norm].at(opdef.RMSNorm.Weight))
	}
	if k.norm != none {
		step.set(s.KGain, g.nodes[k.norm].at(opdef.RMSNorm.Weight))
	}
	if q.rope != none {
		rope := g.nodes[q.rope]
		step.set(s.Position, rope.at(opdef.RoPE.Offset)).set(s.Freqs, rope.at(opdef.RoPE.Freqs))
	}
	group := []int{q.norm, k.norm, q.rope, k.rope, keysID, valuesID, id}
	return g.replace(slices.DeleteFunc(group, func(id int) bool { return id == none }), step)
}
