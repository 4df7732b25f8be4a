package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// projectionArgMax lets the projection find the index of the largest of its
// products on the way, as that of the next token among the logits of a
// vocabulary, where nobody wants to see the products themselves. It runs after
// norm_projection.
func projectionArgMax(g *Graph) {
	o := &opdef.Reduce
	g.all(func(id int, n *Node) {
		op, is := as[opdef.ReduceParams](n, o.Op)
		x := Array{}
		if is {
			x = n.at(o.X)
		}
		if !is || op.Kind != opdef.ReduceArgMax || x.Rank() == 0 || x.Size() != x.Dim(-1) {
			return
		}
		from, fused := g.productFor(id, x)
		if fused == nil {
			return
		}
		fused.op.Epilogue = opdef.ProjectionArgMax
		fused.op.Dtype = opdef.DType(x.DType)
		fused.matrices[0].out = n.at(o.Out)
		g.replace([]int{from, id}, fused.node())
	})
}
