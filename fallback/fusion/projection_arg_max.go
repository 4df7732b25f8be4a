package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// projectionArgMax fuses an arg_max, or greedy, with the projection whose products only it
// reads: for example the next token, without storing the logits of the
// vocabulary. It runs after norm_projection.
func projectionArgMax(g *Graph) {
	o := &opdef.Reduce
	g.all(func(id int, n *Node) {
		op, is := as[opdef.ReduceParams](n, o.Op)
		x := Array{}
		if is {
			x = n.at(o.X)
		}
		if !is || op.Kind != opdef.ReduceArgMax && op.Kind != opdef.ReduceGreedy || x.Rank() == 0 || x.Size() != x.Dim(-1) {
			return
		}
		from, fused := g.productFor(id, x)
		if fused == nil {
			return
		}
		fused.op.Epilogue = opdef.ProjectionArgMax
		if op.Kind == opdef.ReduceGreedy {
			fused.op.Epilogue = opdef.ProjectionGreedy
		}
		fused.op.Dtype = opdef.DType(x.DType)
		fused.matrices[0].out = n.at(o.Out)
		g.replace([]int{from, id}, fused.node())
	})
}
