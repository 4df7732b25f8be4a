package checkpoint

// For is packing, for tests.
func (q *Quantization) For(module string, hasScales bool) (p Packing, quantized bool) {
	return q.packing(module, hasScales)
}
