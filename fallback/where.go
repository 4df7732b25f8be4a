package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// Where picks a's element where the condition is true, else b's, into out. All
// have one shape; a, b and out one type.
//
// Errors: ErrInvalid for other shapes or types.
func Where(condition, a, b, out array.Array) error {
	c := checker{op: "where"}
	c.array("condition", &condition)
	c.dtype("condition", &condition, array.Bool)
	c.array("out", &out)
	c.shape("condition", &condition, out.Shape)
	c.array("a", &a)
	c.shape("a", &a, out.Shape)
	c.dtype("a", &a, out.DType)
	c.array("b", &b)
	c.shape("b", &b, out.Shape)
	c.dtype("b", &b, out.DType)
	if c.err != nil {
		return c.err
	}
	switch out.DType.Size() {
	case 4:
		where[uint32](&condition, &a, &b, &out)
	case 2:
		where[uint16](&condition, &a, &b, &out)
	default:
		where[uint8](&condition, &a, &b, &out)
	}
	return nil
}

func where[T uint32 | uint16 | uint8](condition, a, b, out *array.Array) {
	truth, x, y, z := storage[uint8](condition), storage[T](a), storage[T](b), storage[T](out)
	l := newLoop(len(out.Shape), condition, a, b, out)
	inner := l.inner()
	l.blocks(1, func(off offsets, n int) {
		if inner == (offsets{1, 1, 1, 1}) {
			choose(z[off[3]:off[3]+n], truth[off[0]:], x[off[1]:], y[off[2]:])
			return
		}
		for range n {
			if truth[off[0]] != 0 {
				z[off[3]] = x[off[1]]
			} else {
				z[off[3]] = y[off[2]]
			}
			for k := range off {
				off[k] += inner[k]
			}
		}
	})
}

// choose sets z to x where truth is not 0 and to y elsewhere, without branches.
func choose[T uint32 | uint16 | uint8](z []T, truth []uint8, x, y []T) {
	truth, x, y = truth[:len(z)], x[:len(z)], y[:len(z)]
	for i := range z {
		mask := -T((uint32(truth[i]) + 0xff) >> 8)
		z[i] = y[i] ^ (x[i]^y[i])&mask
	}
}
