package simd

var binaryRows = [...]func(z, x, y *float32, n, step int){
	Add: addRowAVX2, Sub: subRowAVX2, Mul: mulRowAVX2, Div: divRowAVX2, Max2: maxRowAVX2, Min2: minRowAVX2,
}

var compareRows = [...]func(z *byte, x, y *float32, n int){
	Equal: equalRowAVX2, NotEqual: notEqualRowAVX2, Less: lessRowAVX2, LessEqual: lessEqualRowAVX2,
}

var unaryRows = [...]func(z, x *float32, n int){
	Neg: negRowAVX2, Abs: absRowAVX2, Square: squareRowAVX2, Sqrt: sqrtRowAVX2, Rsqrt: rsqrtRowAVX2, Log: logRowAVX2, Exp: expRowAVX2,
	Sigmoid: sigmoidRowAVX2, SiLU: siluRowAVX2, Floor: floorRowAVX2, Ceil: ceilRowAVX2, Round: roundRowAVX2,
	Sin: sinRowAVX2, Cos: cosRowAVX2, Tanh: tanhRowAVX2, Erf: erfRowAVX2,
}

// Names that all architectures have; the compiler puts the calls in place.
func fromBF16Rows(dst *float32, src *uint16, n int) { fromBF16AVX2(dst, src, n) }
func toBF16Rows(dst *uint16, src *float32, n int)   { toBF16AVX2(dst, src, n) }
func fromF16Rows(dst *float32, src *uint16, n int)  { fromF16AVX2(dst, src, n) }
func toF16Rows(dst *uint16, src *float32, n int)    { toF16AVX2(dst, src, n) }
func siluMulRows(dst, gate, up *float32, n int)     { siluMulAVX2(dst, gate, up, n) }
func maxRows(x *float32, n int) float32             { return maxAVX2(x, n) }
func scaleRows(y *float32, n int, f float32)        { scaleAVX2(y, n, f) }
func largestVector(x *float32, n int) float32       { return largestAVX2(x, n) }
func sumLanesVector(sums, x *float32, n int)        { sumLanesAVX2(sums, x, n) }
func rotateRows(dst, x, cos, sin *float32, half int) {
	rotateHalvesAVX2(dst, x, cos, sin, half)
}

func addBF16Vector(dst []float32, src []uint16) int {
	n := eights(len(src))
	if n > 0 {
		addBF16AVX2(&dst[:n][0], &src[0], n)
	}
	return n
}

func addF16Vector(dst []float32, src []uint16) int {
	n := eights(len(src))
	if n > 0 {
		addF16AVX2(&dst[:n][0], &src[0], n)
	}
	return n
}
