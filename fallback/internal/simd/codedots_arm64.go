package simd

var codeDotsNEONForms = codeDotsForms{
	rows: 2,
	some: [2][4]codeDotsFunc{
		Natural: {codeDotsNatural4x2NEON, codeDotsNatural8x2NEON, codeDotsNatural16x2NEON, codeDotsNatural32x2NEON},
		Halves:  {codeDotsHalves4x2NEON, codeDotsHalves8x2NEON, codeDotsHalves16x2NEON},
	},
	one: [2][4]codeDotsFunc{
		Natural: {codeDotsNatural4x1NEON, codeDotsNatural8x1NEON, codeDotsNatural16x1NEON, codeDotsNatural32x1NEON},
		Halves:  {codeDotsHalves4x1NEON, codeDotsHalves8x1NEON, codeDotsHalves16x1NEON},
	},
}

// codeDotsForm returns the forms of the level in use, nil if there are none.
func codeDotsForm() *codeDotsForms {
	if active == NEON {
		return &codeDotsNEONForms
	}
	return nil
}
