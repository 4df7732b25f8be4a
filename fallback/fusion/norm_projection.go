package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// normProjection fuses an RMSNorm with the projection that is its only reader.
// It runs after the passes that join several products in one projection.
func normProjection(g *Graph) {
	o := &opdef.RMSNorm
	g.all(func(id int, n *Node) {
		maker, op, fused := madeRows[opdef.RMSNormParams](g, id, n, o.Op, o.X, o.Out)
		if fused == nil {
			return
		}
		norm := g.nodes[maker]
		fused.op.Norm, fused.op.Eps = 1, op.Eps
		fused.x, fused.gain = norm.at(o.X), norm.at(o.Weight)
		g.replace([]int{maker, id}, fused.node())
	})
}
