package simd

var binaryRows = [...]func(z, x, y *float32, n, step int){
	Add: addRowNEON, Sub: subRowNEON, Mul: mulRowNEON, Div: divRowNEON, Max2: maxRowNEON, Min2: minRowNEON,
}

var compareRows = [...]func(z *byte, x, y *float32, n int){
	Equal: equalRowNEON, NotEqual: notEqualRowNEON, Less: lessRowNEON, LessEqual: lessEqualRowNEON,
}

var unaryRows = [...]func(z, x *float32, n int){
	Neg: negRowNEON, Abs: absRowNEON, Square: squareRowNEON, Sqrt: sqrtRowNEON, Rsqrt: rsqrtRowNEON, Log: logRowNEON, Exp: expRowNEON,
	Sigmoid: sigmoidRowNEON, SiLU: siluRowNEON, Floor: floorRowNEON, Ceil: ceilRowNEON, Round: roundRowNEON,
	Sin: sinRowNEON, Cos: cosRowNEON, Tanh: tanhRowNEON, Erf: erfRowNEON,
}

// Names that all architectures have; the compiler puts the calls in place.
func fromBF16Rows(dst *float32, src *uint16, n int) { fromBF16NEON(dst, src, n) }
func toBF16Rows(dst *uint16, src *float32, n int)   { toBF16NEON(dst, src, n) }
func fromF16Rows(dst *float32, src *uint16, n int)  { fromF16NEON(dst, src, n) }
func toF16Rows(dst *uint16, src *float32, n int)    { toF16NEON(dst, src, n) }
func siluMulRows(dst, gate, up *float32, n int)     { siluMulNEON(dst, gate, up, n) }
func scaleRows(y *float32, n int, f float32)        { scaleNEON(y, n, &f) }
func sumLanesVector(sums, x *float32, n int)        { sumLanesNEON(sums, x, n) }
func rotateRows(dst, x, cos, sin *float32, half int) {
	rotateHalvesNEON(dst, x, cos, sin, half)
}

func maxRows(x *float32, n int) (most float32) {
	maxNEON(x, n, &most)
	return most
}

func largestVector(x *float32, n int) (most float32) {
	largestNEON(x, n, &most)
	return most
}
