package simd

func halfScalesVector(scales, biases []float32, codes []uint8, form ScaleForm) (done int, largest uint8) {
	if active < AVX512 {
		return 0, 0
	}
	kernel := halfE8M0AVX512
	if form == E4M3 {
		kernel = halfE4M3AVX512
	}
	return len(codes), uint8(kernel(&scales[0], &biases[0], &codes[0], len(codes)/16))
}

func decodeE4M3Vector(dst []float32, codes, scales []uint8) bool {
	switch {
	case active == Generic:
		return false
	case active < AVX512:
		decodeE4M3AVX2(&dst[0], &codes[0], &scales[0], len(scales))
	default:
		decodeE4M3AVX512(&dst[0], &codes[0], &scales[0], len(scales))
	}
	return true
}
