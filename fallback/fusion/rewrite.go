package fusion

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
)

// spans reports whether some operand of the node, used in that way, spans the
// view's bytes.
func spans(n *Node, view Array, used func(operand int) bool) bool {
	lo, hi := bytesOf(view)
	for i, a := range n.Arrays {
		if a.Storage != view.Storage || !used(i) {
			continue
		}
		if from, to := bytesOf(a); from <= lo && hi <= to {
			return true
		}
	}
	return false
}

// keepsResults reports whether everything that the group writes is written by the
// fused node too, or is not observable.
func (g *Graph) keepsResults(group []int, fused *Node) bool {
	for _, id := range group {
		n := g.nodes[id]
		for i, view := range n.Arrays {
			if n.writes(i) && !spans(fused, view, fused.writes) && !g.internal(view, group) {
				return false
			}
		}
	}
	return true
}

// keepsOperands reports whether the fused node reads and writes only what the group
// reads and writes. Of what is written inside the group, it may read only operands that
// it writes itself, such as caches: anything else it read there could be the content from
// before the write or from after it.
func (g *Graph) keepsOperands(group []int, fused *Node) bool {
	for i, view := range fused.Arrays {
		if !view.Present() || view.Size() == 0 {
			continue
		}
		read, written, inside := !fused.reads(i), !fused.writes(i), false
		for _, id := range group {
			n := g.nodes[id]
			read = read || spans(n, view, n.reads)
			written = written || spans(n, view, n.writes)
			for k, a := range n.Arrays {
				inside = inside || n.writes(k) && overlaps(a, view)
			}
		}
		if inPlace := fused.writes(i); !read || !written || inside && !inPlace {
			return false
		}
	}
	return true
}

// conflict reports whether two nodes must run in their order.
func (g *Graph) conflict(a, b int) bool {
	x, y := g.nodes[a], g.nodes[b]
	if !x.Known() || !y.Known() {
		return true
	}
	for i, xi := range x.Arrays {
		for k, yk := range y.Arrays {
			if (x.writes(i) || y.writes(k)) && overlaps(xi, yk) {
				return true
			}
		}
	}
	return false
}

// place returns the member in whose place the whole group may run, or none:
// moving there, no member may pass a node that it depends on, or that depends on
// it.
func (g *Graph) place(group []int) int {
	for _, at := range slices.Backward(group) {
		if !slices.ContainsFunc(group, func(id int) bool { return g.blocked(group, id, at) }) {
			return at
		}
	}
	return none
}

// blocked reports whether a member cannot move to another one's place.
func (g *Graph) blocked(group []int, id, at int) bool {
	for between := min(id, at); between < max(id, at); between++ {
		if !g.nodes[between].removed && !slices.Contains(group, between) && g.conflict(id, between) {
			return true
		}
	}
	return false
}

// replace replaces the group by one node, which runs where one of the group did.
// It returns false, and changes nothing, if
//   - something that the group writes is neither written by fused nor internal,
//   - fused reads what only the group wrote, or touches what the group does not,
//   - a node between the group's nodes would run in the wrong order,
//   - the fused op does not support such views.
func (g *Graph) replace(group []int, fused *Node) bool {
	slices.Sort(group)
	group = slices.Compact(group)
	for _, id := range group {
		if g.nodes[id].removed || !g.nodes[id].Known() {
			return false
		}
	}
	at := g.place(group)
	if at == none || !g.keepsResults(group, fused) || !g.keepsOperands(group, fused) || !supported(fused) {
		return false
	}
	fused.Pass = g.pass
	for _, id := range group {
		old := g.nodes[id]
		if len(old.Fused) == 0 {
			fused.Fused = append(fused.Fused, old.Name)
		}
		fused.Fused = append(fused.Fused, old.Fused...)
		g.forget(id)
		g.nodes[id] = &Node{removed: true}
	}
	g.nodes[at] = fused
	g.index(at)
	return true
}

func supported(fused *Node) bool {
	arrays := make([]array.Array, len(fused.Arrays))
	for i, a := range fused.Arrays {
		arrays[i] = a.Host()
	}
	return fallback.Supports(fused.Name, arrays, fused.Params) == nil
}

// remove removes a node whose results are not observable; false if they may be.
func (g *Graph) remove(id int) bool {
	old := g.nodes[id]
	if old.removed || !old.Known() {
		return false
	}
	for i, view := range old.Arrays {
		if !old.writes(i) {
			continue
		}
		// A replay may read at its start what the previous one wrote at its end.
		uses := g.uses[view.Storage]
		alone := uses[0].node == id && uses[len(uses)-1].node == id
		carried := !alone && !g.startsWritten(view.Storage)
		if !view.Transient || carried || len(g.usesAfter(id, view)) > 0 {
			return false
		}
	}
	g.forget(id)
	g.nodes[id] = &Node{removed: true}
	return true
}
