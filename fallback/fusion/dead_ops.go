package fusion

// deadOps removes ops whose results are never used: tensors that the captured
// function made and neither read nor kept.
func deadOps(g *Graph) {
	// Backwards, so that ops whose only reader was dead are themselves dead when their turn
	// comes.
	for id := len(g.nodes) - 1; id >= 0; id-- {
		g.remove(id)
	}
}
