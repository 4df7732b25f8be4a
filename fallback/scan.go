package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// ScanParams tell what Scan adds up.
type ScanParams struct {
	Axis      int  // along which
	Exclusive bool // without the element itself
	Reverse   bool // from the end of the axis
}

// Scan sets every element of out to the sum or product of x's elements up to it
// along an axis. x and out have one shape and one type of numbers. Floats are combined
// in float32 and rounded once; integers wrap around.
//
// Errors: ErrInvalid for other shapes or types, an axis that x lacks or an unknown
// kind.
func Scan(kind opdef.ScanKind, x, out array.Array, p ScanParams) error {
	c := checker{op: "scan"}
	c.array("x", &x)
	c.array("out", &out)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	switch {
	case c.err != nil:
	case kind >= opdef.NumScanKinds:
		c.fail("there is no kind %d", kind)
	case p.Axis < 0 || p.Axis >= len(x.Shape):
		c.fail("shape %v has no axis %d", x.Shape, p.Axis)
	case x.DType == array.Bool:
		c.fail("no arithmetic on %v", x.DType)
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	x.Layout, out.Layout = axisLast(x.Layout, p.Axis), axisLast(out.Layout, p.Axis)
	s := scan{kind: kind, exclusive: p.Exclusive, reverse: p.Reverse}
	switch x.DType {
	case array.Int32:
		scanInts[int32](s, &x, &out)
	case array.Uint32:
		scanInts[uint32](s, &x, &out)
	case array.Uint8:
		scanInts[uint8](s, &x, &out)
	default:
		eachRow(2*float64(x.Dim(-1)), &x, &out, s.floats)
	}
	return nil
}

// axisLast returns a layout with the axis moved to the end.
func axisLast(l array.Layout, axis int) array.Layout {
	move := func(of []int) []int {
		return append(slices.Delete(slices.Clone(of), axis, axis+1), of[axis])
	}
	return array.Layout{Shape: move(l.Shape), Strides: move(l.Strides), Offset: l.Offset}
}

type scan struct {
	kind               opdef.ScanKind
	exclusive, reverse bool
}

// scanPiece is how many floats are combined one after another, so that long
// sums stay accurate.
const scanPiece = 256

// floats scans one row. dst may be row.
func (s scan) floats(dst, row []float32) {
	if s == (scan{kind: opdef.ScanSum}) {
		sumsSoFar(dst, row)
		return
	}
	one := float32(0)
	join := func(a, b float32) float32 { return a + b }
	if s.kind == opdef.ScanProd {
		one, join = 1, func(a, b float32) float32 { return a * b }
	}
	carry := one
	for first := 0; first < len(row); first += scanPiece {
		total := one
		for i := first; i < min(first+scanPiece, len(row)); i++ {
			at := s.place(i, len(row))
			before := total
			total = join(total, row[at])
			if s.exclusive {
				dst[at] = join(carry, before)
			} else {
				dst[at] = join(carry, total)
			}
		}
		carry = join(carry, total)
	}
}

// sumsSoFar is the usual form of floats.
func sumsSoFar(dst, row []float32) {
	carry := float32(0)
	for len(row) > 0 {
		n := min(scanPiece, len(row))
		piece, to := row[:n], dst[:n]
		total := float32(0)
		for i, v := range piece {
			total += v
			to[i] = carry + total
		}
		carry += total
		row, dst = row[n:], dst[n:]
	}
}

// place returns the index of the element that comes i-th.
func (s scan) place(i, n int) int {
	if s.reverse {
		return n - 1 - i
	}
	return i
}

func scanInts[T integer](s scan, x, out *array.Array) {
	n := x.Dim(-1)
	rows := newLoop(len(x.Shape)-1, x, out)
	from, to := storage[T](x), storage[T](out)
	stride, outStride := x.Strides[len(x.Shape)-1], out.Strides[len(x.Shape)-1]
	rows.each(2*float64(n), func(c cursor, lo, hi int) {
		for range hi - lo {
			total := T(0)
			if s.kind == opdef.ScanProd {
				total = 1
			}
			for i := range n {
				at := s.place(i, n)
				v, before := from[c.off[0]+at*stride], total
				if s.kind == opdef.ScanSum {
					total += v
				} else {
					total *= v
				}
				if !s.exclusive {
					before = total
				}
				to[c.off[1]+at*outStride] = before
			}
			c.next()
		}
	})
}
