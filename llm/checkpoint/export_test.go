package checkpoint

// For exports packing to tests.
func (q *Quantization) For(module string, hasScales bool) (p Packing, quantized bool) {
	p, quantized, _ = q.packing(module, hasScales)
	return p, quantized
}
