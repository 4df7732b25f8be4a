package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// attentionProjection fuses attention of one new token with the product that is
// its only reader, so that the product combines the results of several workers
// for the same heads. It runs after the passes that make both.
func attentionProjection(g *Graph) {
	o, s := &opdef.AttentionProjection, &opdef.AttentionStep
	g.all(func(id int, n *Node) {
		product := projectionOf(n)
		if product == nil || !product.plainX() || product.x.Size() != product.x.Dim(-1) || len(product.matrices) != 1 || product.op.Epilogue > opdef.ProjectionResidual {
			return
		}
		from, ok := g.producer(id, product.x)
		if !ok {
			return
		}
		step := g.nodes[from.node]
		op, is := as[opdef.AttentionStepParams](step, s.Op)
		if !is || !sameData(step.at(s.Out), product.x) {
			return
		}
		fused := call(o.Op, opdef.AttentionProjectionParams{Step: op, Projection: product.op})
		copy(fused.Arrays, step.Arrays[:s.Out.Index]) // its first operands are those of the step
		m := product.matrices[0]
		fused.set(o.Residual, product.residual).set(o.W, m.w).set(o.Scales, m.scales).set(o.Biases, m.biases).set(o.Out, m.out)
		g.replace([]int{from.node, id}, fused)
	})
}
