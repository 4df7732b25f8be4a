package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Cast converts the elements of x to the type of out. Both have one shape.
//
// Floats become integers by truncation toward zero; what is out of range
// saturates, and NaN gives 0. Integers become floats rounded to the nearest,
// ties to even, and other integers by wrapping around. They become floats of 16 bits
// by way of float32. Numbers other than zero, and NaN, become true, and true becomes 1.
//
// Errors: ErrInvalid for other shapes or unknown types.
func Cast(x, out array.Array) error {
	c := checker{op: "cast"}
	c.array("x", &x)
	c.array("out", &out)
	c.shape("out", &out, x.Shape)
	if c.err != nil {
		return c.err
	}
	if x.DType == out.DType {
		copyArray(&x, &out)
		return nil
	}
	switch l := newLoop(len(x.Shape), &x, &out); x.DType {
	case array.Int32:
		castInts[int32](&l, &x, &out)
	case array.Uint32:
		castInts[uint32](&l, &x, &out)
	case array.Bool, array.Uint8:
		castInts[uint8](&l, &x, &out)
	default:
		castFloats(&l, &x, &out)
	}
	return nil
}

func castFloats(l *loop, x, out *array.Array) {
	inner := l.inner()
	l.blocks(1, func(off offsets, n int) {
		scratch := borrow(blockSize)
		defer scratch.release()
		in := floats(x, off[0], inner[0], n, scratch.f)
		at, stride := off[1], inner[1]
		switch out.DType {
		case array.Int32:
			castRow(storage[int32](out), at, stride, in, floatToInt)
		case array.Uint32:
			castRow(storage[uint32](out), at, stride, in, floatToUint)
		case array.Uint8:
			castRow(storage[uint8](out), at, stride, in, floatToUint8)
		case array.Bool:
			castRow(storage[uint8](out), at, stride, in, func(v float32) uint8 { return toByte(v != 0) })
		default:
			storeFloats(out, at, stride, in)
		}
	})
}

func castInts[T integer](l *loop, x, out *array.Array) {
	in, inner := storage[T](x), l.inner()
	l.blocks(1, func(off offsets, n int) {
		scratch := borrow(blockSize)
		defer scratch.release()
		var buf [blockSize]T
		row := view(in, off[0], inner[0], n, buf[:])
		if x.DType == array.Bool {
			row = castView(row, buf[:n], func(v T) T { return T(toByte(v != 0)) })
		}
		at, stride := off[1], inner[1]
		switch out.DType {
		case array.Int32:
			castRow(storage[int32](out), at, stride, row, func(v T) int32 { return int32(v) })
		case array.Uint32:
			castRow(storage[uint32](out), at, stride, row, func(v T) uint32 { return uint32(v) })
		case array.Uint8:
			castRow(storage[uint8](out), at, stride, row, func(v T) uint8 { return uint8(v) })
		case array.Bool:
			castRow(storage[uint8](out), at, stride, row, func(v T) uint8 { return toByte(v != 0) })
		default:
			wide := castView(row, scratch.f[:n], func(v T) float32 { return float32(v) })
			storeFloats(out, at, stride, wide)
		}
	})
}

// castView converts src into dst and returns dst.
func castView[From, To any](src []From, dst []To, f func(From) To) []To {
	for i, v := range src {
		dst[i] = f(v)
	}
	return dst
}

// castRow converts src to elements of out from off on, stride apart.
func castRow[From, To any](out []To, off, stride int, src []From, f func(From) To) {
	for _, v := range src {
		out[off] = f(v)
		off += stride
	}
}

func floatToInt(v float32) int32 {
	switch {
	case v != v:
		return 0
	case v >= math.MaxInt32:
		return math.MaxInt32
	case v <= math.MinInt32:
		return math.MinInt32
	}
	return int32(v)
}

func floatToUint(v float32) uint32 {
	switch {
	case !(v > 0): // NaN too
		return 0
	case v >= math.MaxUint32:
		return math.MaxUint32
	}
	return uint32(v)
}

func floatToUint8(v float32) uint8 { return uint8(min(floatToUint(v), math.MaxUint8)) }
