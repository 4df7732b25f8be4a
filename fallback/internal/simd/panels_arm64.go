package simd

var panelsNEON = []panelKernel{{6, panelProduct6NEON}, {4, panelProduct4NEON}, {2, panelProduct2NEON}, {1, panelProduct1NEON}}

// panelKernels returns the forms of the level in use.
func panelKernels() []panelKernel {
	if active == NEON {
		return panelsNEON
	}
	return nil
}
