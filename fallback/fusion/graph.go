// Package fusion replaces groups of op calls of a region by calls of fused ops of
// package fallback. It is the counterpart of csrc/fusion, which serves native
// devices, with the same passes and the same names; see pass.go for what a pass
// does.
package fusion

import (
	"slices"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Storage is memory that arrays of a graph are views of.
type Storage struct {
	Bytes int
	// Transient storage has no open view: only the graph's own ops see it.
	Transient bool
}

// Array is a view of a storage. The zero Array stands for an absent operand.
type Array struct {
	*Storage
	DType array.DType
	array.Layout
}

// Present reports whether a is an operand at all.
func (a Array) Present() bool { return a.Storage != nil }

// Host returns a as a host array without memory; the zero Array if it is absent.
func (a Array) Host() array.Array {
	if !a.Present() {
		return array.Array{}
	}
	return array.Array{DType: a.DType, Layout: a.Layout}
}

// Node is one op call.
type Node struct {
	Name   string
	Arrays []Array // in the order of csrc/ops/ops.def
	Access []opdef.Access
	Params []byte

	Pass    string   // the pass that made it; empty for a captured one
	Fused   []string // and the captured ops that it replaces
	Call    int      // the captured op, if no pass made it
	removed bool
}

func (n *Node) reads(i int) bool  { return n.Arrays[i].Present() && n.Access[i] != opdef.Write }
func (n *Node) writes(i int) bool { return n.Arrays[i].Present() && n.Access[i] != opdef.Read }

// at returns an operand.
func (n *Node) at(o opdef.Operand) Array { return n.Arrays[o.Index] }

// as returns the parameters of a call of op; ok is false for other nodes.
func as[P any](n *Node, op opdef.Op) (params P, ok bool) {
	if n == nil || n.Name != op.Name || len(n.Arrays) < len(op.Operands) || len(n.Params) != int(unsafe.Sizeof(params)) {
		return params, false
	}
	return opdef.ParamsOf[P](n.Params), true
}

// call makes a node of a fused op, with absent operands.
func call[P any](op opdef.Op, params P) *Node {
	n := &Node{Name: op.Name, Arrays: make([]Array, len(op.Operands)), Access: make([]opdef.Access, len(op.Operands)), Call: -1}
	for i, o := range op.Operands {
		n.Access[i] = o.Access
	}
	n.Params = slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&params)), unsafe.Sizeof(params)))
	return n
}

func (n *Node) set(o opdef.Operand, a Array) *Node {
	n.Arrays[o.Index] = a
	return n
}

// Graph consists of op calls in the order in which they were captured. Edges
// are not stored: they follow from the bytes that nodes read and write.
type Graph struct {
	nodes []*Node
	pass  string // the pass that makes the next replacements
	uses  map[*Storage][]touch
}

// touch is a use of some bytes: an operand of a node.
type touch struct{ node, operand int }

// none is no node.
const none = -1

// NewGraph returns the graph of these calls, and keeps them.
func NewGraph(nodes []*Node) *Graph {
	g := &Graph{nodes: nodes, uses: make(map[*Storage][]touch)}
	for id := range nodes {
		g.index(id)
	}
	return g
}

// Nodes returns the remaining nodes, in order.
func (g *Graph) Nodes() []*Node {
	return slices.DeleteFunc(slices.Clone(g.nodes), func(n *Node) bool { return n.removed })
}

// all calls f for each node that still exists when its turn comes.
func (g *Graph) all(f func(id int, n *Node)) {
	for id, n := range g.nodes {
		if !n.removed {
			f(id, g.nodes[id])
		}
	}
}

func (g *Graph) index(id int) {
	for i, a := range g.nodes[id].Arrays {
		if !a.Present() {
			continue
		}
		list := g.uses[a.Storage]
		at, _ := slices.BinarySearchFunc(list, id+1, func(t touch, id int) int { return t.node - id })
		g.uses[a.Storage] = slices.Insert(list, at, touch{id, i})
	}
}

func (g *Graph) forget(id int) {
	for _, a := range g.nodes[id].Arrays {
		if a.Present() {
			g.uses[a.Storage] = slices.DeleteFunc(g.uses[a.Storage], func(t touch) bool { return t.node == id })
		}
	}
}

func (g *Graph) array(t touch) Array { return g.nodes[t.node].Arrays[t.operand] }

// producer returns the last node before reader that writes bytes of the view; ok
// is false if there is none in this graph.
func (g *Graph) producer(reader int, view Array) (t touch, ok bool) {
	for _, t := range slices.Backward(g.uses[view.Storage]) {
		if t.node < reader && g.nodes[t.node].writes(t.operand) && overlaps(g.array(t), view) {
			return t, true
		}
	}
	return touch{none, none}, false
}

// usesAfter returns the uses of bytes of the view by nodes after id, in order.
func (g *Graph) usesAfter(id int, view Array) (found []touch) {
	for _, t := range g.uses[view.Storage] {
		if t.node > id && overlaps(g.array(t), view) {
			found = append(found, t)
		}
	}
	return found
}

// startsWritten reports whether the first node that touches the storage writes all
// of it, so that no earlier content is read.
func (g *Graph) startsWritten(s *Storage) bool {
	list := g.uses[s]
	covered := len(list) == 0
	for _, t := range list {
		if t.node != list[0].node {
			break
		}
		if g.nodes[t.node].reads(t.operand) {
			return false
		}
		covered = covered || coversStorage(g.array(t))
	}
	return covered
}

// internal reports whether only these nodes see the view's storage. Such an
// intermediate may be fused away.
func (g *Graph) internal(view Array, group []int) bool {
	if !view.Transient || !g.startsWritten(view.Storage) {
		return false
	}
	return !slices.ContainsFunc(g.uses[view.Storage], func(t touch) bool { return !slices.Contains(group, t.node) })
}
