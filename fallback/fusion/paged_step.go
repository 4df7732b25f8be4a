package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// pagedStep replaces paged_heads of new tokens that do not see each other, and the
// paged_sdpa that is the only reader of its queries, by paged_step. It runs after
// pagedHeads.
func pagedStep(g *Graph) {
	o, h, f := &opdef.PagedSDPA, &opdef.PagedHeads, &opdef.PagedStep
	g.all(func(id int, sdpa *Node) {
		op, is := as[opdef.PagedSDPAParams](sdpa, o.Op)
		if !is || sdpa.at(o.Q).Dim(0) != 1 && op.Apart == 0 {
			return
		}
		from, ok := g.producer(id, sdpa.at(o.Q))
		if !ok {
			return
		}
		heads := g.nodes[from.node]
		of, is := as[opdef.PagedHeadsParams](heads, h.Op)
		// It must read the pages that the tokens are written to.
		if !is || from.operand != h.Out.Index || !sameView(heads.at(h.Out), sdpa.at(o.Q)) ||
			!sameView(heads.at(h.Keys), sdpa.at(o.Keys)) || !sameView(heads.at(h.Values), sdpa.at(o.Values)) {
			return
		}
		fused := call(f.Op, opdef.PagedStepParams{Heads: of, Scale: op.Scale})
		copy(fused.Arrays, heads.Arrays[:h.Out.Index]) // its first operands are those of paged_heads
		fused.set(f.Table, sdpa.at(o.Table)).set(f.Sequences, sdpa.at(o.Sequences)).set(f.Lengths, sdpa.at(o.Lengths)).set(f.Out, sdpa.at(o.Out))
		g.replace([]int{from.node, id}, fused)
	})
}
