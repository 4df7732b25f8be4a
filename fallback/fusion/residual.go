package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// residual lets the projection add its product to a residual of the same shape.
func residual(g *Graph) {
	o := &opdef.Binary
	g.all(func(id int, n *Node) {
		op, is := as[opdef.BinaryParams](n, o.Op)
		if !is || op.Kind != opdef.BinaryAdd {
			return
		}
		for _, terms := range [][2]Array{{n.at(o.B), n.at(o.A)}, {n.at(o.A), n.at(o.B)}} {
			from, fused := g.productFor(id, terms[0])
			if fused == nil {
				continue
			}
			fused.op.Epilogue = opdef.ProjectionResidual
			fused.residual = terms[1]
			fused.matrices[0].out = n.at(o.Out)
			if g.replace([]int{from, id}, fused.node()) {
				return
			}
		}
	})
}
