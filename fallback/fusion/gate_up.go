package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// gateUp replaces SiLU(x·gate)·(x·up), the first half of a gated MLP, by one
// projection that reads both matrices and stores one row.
func gateUp(g *Graph) {
	o := &opdef.SiLUMul
	g.all(func(id int, n *Node) {
		if _, is := as[opdef.SiLUMulParams](n, o.Op); !is {
			return
		}
		gateID, gate := g.productFor(id, n.at(o.Gate))
		upID, up := g.productFor(id, n.at(o.Up))
		if gate == nil || up == nil || gateID == upID || !gate.joins(up) {
			return
		}
		gate.op.Epilogue = opdef.ProjectionSiLUMul
		gate.matrices = append(gate.matrices, up.matrices[0])
		gate.matrices[0].out, gate.matrices[1].out = n.at(o.Out), Array{}
		g.replace([]int{gateID, upID, id}, gate.node())
	})
}
