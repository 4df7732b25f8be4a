package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// gatedProjection fuses SiLU(gate)·up with the projection that is its only reader,
// where gate and up are not the products of matrices that one projection can read:
// see gateUp.
func gatedProjection(g *Graph) {
	o := &opdef.SiLUMul
	g.all(func(id int, n *Node) {
		maker, _, fused := madeRows[opdef.SiLUMulParams](g, id, n, o.Op, o.Gate, o.Out)
		if fused == nil {
			return
		}
		gated := g.nodes[maker]
		fused.x, fused.up = gated.at(o.Gate), gated.at(o.Up)
		g.replace([]int{maker, id}, fused.node())
	})
}
