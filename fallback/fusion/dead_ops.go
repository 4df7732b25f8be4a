package fusion

// deadOps removes ops whose results nobody sees: tensors that the captured
// function made and neither read nor kept.
func deadOps(g *Graph) {
	// From the end, so that what only fed a dead op is dead when its turn comes.
	for id := len(g.nodes) - 1; id >= 0; id-- {
		g.remove(id)
	}
}
