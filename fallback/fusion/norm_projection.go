package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// normProjection lets the projection that alone reads an RMSNorm
// normalise them. It runs after the passes that make one projection of several
// products.
func normProjection(g *Graph) {
	o := &opdef.RMSNorm
	g.all(func(id int, n *Node) {
		fused := projectionOf(n)
		if fused == nil || fused.op.Norm != 0 {
			return
		}
		from, ok := g.producer(id, fused.x)
		if !ok {
			return
		}
		norm := g.nodes[from.node]
		op, is := as[opdef.RMSNormParams](norm, o.Op)
		// The norm of a row that is cut into several is another one.
		if !is || !sameData(norm.at(o.Out), fused.x) || norm.at(o.X).Rank() == 0 || norm.at(o.X).Dim(-1) != fused.x.Dim(-1) {
			return
		}
		fused.op.Norm, fused.op.Eps = 1, op.Eps
		fused.x, fused.gain = norm.at(o.X), norm.at(o.Weight)
		g.replace([]int{from.node, id}, fused.node())
	})
}
