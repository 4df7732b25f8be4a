package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// Fill sets every element of out to the one with the given bits: those of a
// float of out's type, an integer in two's complement, or 0 and 1.
//
// Errors: ErrInvalid for a layout outside its storage.
func Fill(out array.Array, bits uint32) error {
	c := checker{op: "fill"}
	c.array("out", &out)
	if c.err != nil {
		return c.err
	}
	fillArray(&out, bits)
	return nil
}

// fillArray fills a sound array.
func fillArray(out *array.Array, bits uint32) {
	l := newLoop(len(out.Shape), out)
	switch out.DType.Size() {
	case 4:
		fillElements(&l, out, bits)
	case 2:
		fillElements(&l, out, uint16(bits))
	default:
		fillElements(&l, out, uint8(bits))
	}
}

func fillElements[T uint32 | uint16 | uint8](l *loop, out *array.Array, v T) {
	dst, stride := storage[T](out), l.inner()[0]
	l.blocks(0.3, func(off offsets, n int) {
		at := off[0]
		if stride == 1 {
			row := dst[at : at+n]
			for i := range row {
				row[i] = v
			}
			return
		}
		for range n {
			dst[at] = v
			at += stride
		}
	})
}
