package checkpoint

// For exports packing to tests.
func (q *Quantization) For(module string, hasScales bool) (p Packing, quantized bool) {
	return q.packing(module, hasScales)
}
