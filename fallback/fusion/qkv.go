package fusion

import "github.com/kompute-go/kompute-go/internal/opdef"

// qkv replaces two or three products of one row, such as those of a hidden
// state with the matrices of queries, keys and values, by one projection with
// as many results.
func qkv(g *Graph) {
	g.all(func(id int, n *Node) {
		first := projectionOf(n)
		if first == nil || !first.plain() || len(first.matrices) != 1 {
			return
		}
		ids, others := g.othersOf(id, first)
		for count := len(others); count > 0; count-- {
			fused := *first
			for _, other := range others[:count] {
				fused.matrices = append(fused.matrices[:len(fused.matrices):len(fused.matrices)], other.matrices[0])
			}
			if g.replace(append([]int{id}, ids[:count]...), fused.node()) {
				return
			}
		}
	})
}

// othersOf returns the first products after id, the product p, that read the same x.
func (g *Graph) othersOf(id int, p *projection) (ids []int, found []*projection) {
	for _, t := range g.usesAfter(id, p.x) {
		if g.nodes[t.node].writes(t.operand) || len(found)+1 == opdef.ProjectionGroups {
			break
		}
		other := projectionOf(g.nodes[t.node])
		if other != nil && len(other.matrices) == 1 && p.joins(other) {
			ids, found = append(ids, t.node), append(found, other)
		}
	}
	return ids, found
}
