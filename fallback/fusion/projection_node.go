package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// projection has the parts of a node that multiplies rows with quantized
// matrices, for the passes that extend it.
type projection struct {
	op                    opdef.ProjectionParams
	x, gain, up, residual Array
	matrices              []matrix
}

type matrix struct{ w, scales, biases, out Array }

// projectionOf returns a quantized_matmul with a transposed matrix, or a
// projection, as a projection; nil for other nodes.
func projectionOf(n *Node) *projection {
	if op, is := as[opdef.QuantizedMatMulParams](n, opdef.QuantizedMatMul.Op); is {
		return fromProduct(n, op)
	}
	op, is := as[opdef.ProjectionParams](n, opdef.Projection.Op)
	if !is {
		return nil
	}
	o := &opdef.Projection
	p := &projection{op: op, x: n.at(o.X), gain: n.at(o.Gain), up: n.at(o.Up), residual: n.at(o.Residual)}
	for i := range opdef.ProjectionGroups {
		if m := n.Arrays[o.W.Index+i*opdef.ProjectionGroupSize:]; m[0].Present() {
			p.matrices = append(p.matrices, matrix{m[0], m[1], m[2], m[3]})
		}
	}
	return p
}

func fromProduct(n *Node, op opdef.QuantizedMatMulParams) *projection {
	o := &opdef.QuantizedMatMul
	x := n.at(o.X)
	if op.Transpose == 0 || x.Rank() == 0 || x.Size() == 0 {
		return nil
	}
	return &projection{
		op: opdef.ProjectionParams{GroupSize: op.GroupSize, Bits: op.Bits, Epilogue: opdef.ProjectionStore},
		x:  x, matrices: []matrix{{n.at(o.W), n.at(o.Scales), n.at(o.Biases), n.at(o.Out)}},
	}
}

// plainX reports whether the rows of x itself are multiplied.
func (p *projection) plainX() bool { return p.op.Norm == 0 && !p.up.Present() }

// plain reports whether there is neither that nor an epilogue.
func (p *projection) plain() bool { return p.plainX() && p.op.Epilogue == opdef.ProjectionStore }

// joins reports whether the matrices of the other may be added: both are plain, and
// have the same x and quantization.
func (p *projection) joins(other *projection) bool {
	return p.plain() && other.plain() && sameData(p.x, other.x) && p.x.Dim(-1) == other.x.Dim(-1) && p.op.Bits == other.op.Bits &&
		p.op.GroupSize == other.op.GroupSize && p.matrices[0].biases.Present() == other.matrices[0].biases.Present()
}

// node makes the call.
func (p *projection) node() *Node {
	o := &opdef.Projection
	n := call(o.Op, p.op).set(o.X, p.x).set(o.Gain, p.gain).set(o.Up, p.up).set(o.Residual, p.residual)
	for i, m := range p.matrices {
		copy(n.Arrays[o.W.Index+i*opdef.ProjectionGroupSize:], []Array{m.w, m.scales, m.biases, m.out})
	}
	return n
}

// productFor returns the projection whose result is exactly the view and is read
// by the node reader alone; it has no epilogue, but may have a norm. nil if there
// is none.
func (g *Graph) productFor(reader int, view Array) (int, *projection) {
	from, ok := g.producer(reader, view)
	if !ok {
		return none, nil
	}
	p := projectionOf(g.nodes[from.node])
	if p == nil || p.op.Epilogue != opdef.ProjectionStore || len(p.matrices) != 1 || !sameData(p.matrices[0].out, view) {
		return none, nil
	}
	return from.node, p
}

// madeRows returns the node of op that makes the rows of the projection n, whose number is id. Each
// of these rows must be made from one row of that node's operand source: it is not so if the
// product divides rows into several. The projection is nil if there is no such node.
func madeRows[P any](g *Graph, id int, n *Node, op opdef.Op, source, out opdef.Operand) (maker int, params P, p *projection) {
	p = projectionOf(n)
	if p == nil || !p.plainX() {
		return none, params, nil
	}
	from, ok := g.producer(id, p.x)
	if !ok {
		return none, params, nil
	}
	m := g.nodes[from.node]
	params, is := as[P](m, op)
	if !is || !sameData(m.at(out), p.x) || m.at(source).Rank() == 0 || m.at(source).Dim(-1) != p.x.Dim(-1) {
		return none, params, nil
	}
	return from.node, params, p
}
