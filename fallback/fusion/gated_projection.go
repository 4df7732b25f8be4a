package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// gatedProjection fuses SiLU(gate)·up with the projection that is its only reader,
// where gate and up are not the products of matrices that one projection can read:
// see gateUp.
func gatedProjection(g *Graph) {
	o := &opdef.SiLUMul
	g.all(func(id int, n *Node) {
		fused := projectionOf(n)
		if fused == nil || !fused.plainX() {
			return
		}
		from, ok := g.producer(id, fused.x)
		if !ok {
			return
		}
		gated := g.nodes[from.node]
		_, is := as[opdef.SiLUMulParams](gated, o.Op)
		// If the product divides rows into several, gate and up have other rows than x.
		if !is || !sameData(gated.at(o.Out), fused.x) || gated.at(o.Gate).Rank() == 0 || gated.at(o.Gate).Dim(-1) != fused.x.Dim(-1) {
			return
		}
		fused.x, fused.up = gated.at(o.Gate), gated.at(o.Up)
		g.replace([]int{from.node, id}, fused.node())
	})
}
