package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// normProjection fuses an RMSNorm with the projection that is its only reader.
// It runs after the passes that join several products in one projection.
func normProjection(g *Graph) {
	o := &opdef.RMSNorm
	g.all(func(id int, n *Node) {
		fused := projectionOf(n)
		if fused == nil || !fused.plainX() {
			return
		}
		from, ok := g.producer(id, fused.x)
		if !ok {
			return
		}
		norm := g.nodes[from.node]
		op, is := as[opdef.RMSNormParams](norm, o.Op)
		// If the product divides rows into several, their norms are different ones.
		if !is || !sameData(norm.at(o.Out), fused.x) || norm.at(o.X).Rank() == 0 || norm.at(o.X).Dim(-1) != fused.x.Dim(-1) {
			return
		}
		fused.op.Norm, fused.op.Eps = 1, op.Eps
		fused.x, fused.gain = norm.at(o.X), norm.at(o.Weight)
		g.replace([]int{from.node, id}, fused.node())
	})
}
