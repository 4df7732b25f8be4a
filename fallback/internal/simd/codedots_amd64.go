package simd

var (
	codeDotsVNNI512Forms = codeDotsForms{ // for the rest there is GroupDots
		rows: 4,
		some: [2][4]codeDotsFunc{Natural: {codeDotsNatural4x4VNNI512}},
		one:  [2][4]codeDotsFunc{Natural: {codeDotsNatural4x1VNNI512}},
	}

	codeDotsAVXVNNIForms = codeDotsForms{
		rows: 2,
		some: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x2AVXVNNI, codeDotsNatural8x2AVXVNNI, codeDotsNatural16x2AVXVNNI, codeDotsNatural32x2AVXVNNI},
			Halves:  {codeDotsHalves4x2AVXVNNI, codeDotsHalves8x2AVXVNNI, codeDotsHalves16x2AVXVNNI},
		},
		one: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x1AVXVNNI, codeDotsNatural8x1AVXVNNI, codeDotsNatural16x1AVXVNNI, codeDotsNatural32x1AVXVNNI},
			Halves:  {codeDotsHalves4x1AVXVNNI, codeDotsHalves8x1AVXVNNI, codeDotsHalves16x1AVXVNNI},
		},
	}

	codeDotsAVX2Forms = codeDotsForms{
		rows: 2,
		some: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x2AVX2, codeDotsNatural8x2AVX2, codeDotsNatural16x2AVX2, codeDotsNatural32x2AVX2},
			Halves:  {codeDotsHalves4x2AVX2, codeDotsHalves8x2AVX2, codeDotsHalves16x2AVX2},
		},
		one: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x1AVX2, codeDotsNatural8x1AVX2, codeDotsNatural16x1AVX2, codeDotsNatural32x1AVX2},
			Halves:  {codeDotsHalves4x1AVX2, codeDotsHalves8x1AVX2, codeDotsHalves16x1AVX2},
		},
	}
)

// codeDotsForm returns the forms of the level in use, nil if there are none.
func codeDotsForm() *codeDotsForms {
	switch active {
	case VNNI512, VBMI, AMX:
		return &codeDotsVNNI512Forms
	case AVXVNNI:
		return &codeDotsAVXVNNIForms
	case AVX2, AVX512:
		return &codeDotsAVX2Forms
	}
	return nil
}
