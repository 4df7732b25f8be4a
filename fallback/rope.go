package fallback

import (
	"sync/atomic"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// RoPEParams are the parameters of a rotary position embedding.
type RoPEParams struct {
	// Dims is how many elements of a head are rotated, an even number; the
	// others are copied.
	Dims int
	// Traditional pairs elements 2i and 2i+1; else i and i + Dims/2.
	Traditional bool
	// Base is θ of the angles, Scale multiplies positions.
	Base, Scale float32
	// Offset is the position of the first step, if there is no array of offsets.
	Offset int
}

// RoPE rotates the pairs of x [B, H, T, D] (Su et al., 2021) into out of the same
// shape and float type. Pair i at step t turns by the angle
// (offset + t)·Scale·Base^(-2i/Dims), or (offset + t)·Scale / freqs[i]. offset is
// int32 [1] or [B], or absent; freqs is float32 [Dims/2], or absent.
//
// Errors: ErrInvalid for other shapes or types, or an odd or too large Dims.
func RoPE(x, offset, freqs, out array.Array, p RoPEParams) error {
	c := checker{op: "rope"}
	c.float("x", &x)
	c.float("out", &out)
	c.rank("x", &x, 4)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	if p.Dims < 0 || p.Dims%2 != 0 || p.Dims > x.Dim(-1) {
		c.fail("%d rotated elements in heads of %d", p.Dims, x.Dim(-1))
	}
	if freqs.Present() {
		c.array("freqs", &freqs)
		c.dtype("freqs", &freqs, array.Float32)
		c.shape("freqs", &freqs, []int{p.Dims / 2})
	}
	if offset.Present() {
		c.array("offset", &offset)
		c.dtype("offset", &offset, array.Int32)
		c.rank("offset", &offset, 1)
		if n := offset.Dim(0); c.err == nil && n != 1 && n != x.Shape[0] {
			c.fail("%d offsets for a batch of %d", n, x.Shape[0])
		}
	}
	if c.err != nil {
		return c.err
	}
	if x.Size() > 0 {
		rotate(&x, &out, p, ropeTables(&offset, &freqs, p, x.Shape[2]))
	}
	return nil
}

// ropeTable holds cos and sin of every pair at steps in a row.
type ropeTable struct {
	params   RoPEParams
	steps    int
	cos, sin []float32 // [steps, Dims/2]
}

// lastTable is the table used last: all layers of a model need the same one.
var lastTable atomic.Pointer[ropeTable]

// maxKept is the size of the largest table to keep, in numbers.
const maxKept = 1 << 18

// ropeTables returns the table of each sequence of the batch, or a single one if
// they share it.
func ropeTables(offset, freqs *array.Array, p RoPEParams, steps int) []*ropeTable {
	if !offset.Present() {
		return []*ropeTable{tableFor(p, freqs, steps)}
	}
	starts := storage[int32](offset)
	tables := make([]*ropeTable, offset.Shape[0])
	for b := range tables {
		p.Offset = int(starts[offset.Offset+b*offset.Strides[0]])
		if b > 0 && tables[b-1].params.Offset == p.Offset {
			tables[b] = tables[b-1]
		} else {
			tables[b] = tableFor(p, freqs, steps)
		}
	}
	return tables
}

func tableFor(p RoPEParams, freqs *array.Array, steps int) *ropeTable {
	p.Traditional = false // the angles do not depend on it
	if freqs.Present() {
		p.Base = 0
		return newTable(p, freqs, steps)
	}
	if t := lastTable.Load(); t != nil && t.params == p && t.steps == steps {
		return t
	}
	t := newTable(p, freqs, steps)
	if len(t.cos) <= maxKept {
		lastTable.Store(t)
	}
	return t
}

// newTable computes the table.
func newTable(p RoPEParams, freqs *array.Array, steps int) *ropeTable {
	half := p.Dims / 2
	both := make([]float32, 2*steps*half)
	t := &ropeTable{params: p, steps: steps, cos: both[:steps*half], sin: both[steps*half:]}
	waves := newRopeWaves(p.Base, p.Dims).or(freqs, make([]float32, half))
	parallel(steps, 40*float64(half), func(lo, hi int) {
		for step := lo; step < hi; step++ {
			at := step * half
			waves.angles(float32(int64(p.Offset)+int64(step))*p.Scale, t.cos[at:at+half], t.sin[at:at+half])
		}
	})
	return t
}

// rotate turns the rows of x by the tables.
func rotate(x, out *array.Array, p RoPEParams, tables []*ropeTable) {
	heads, steps, d := x.Shape[1], x.Shape[2], x.Shape[3]
	half := p.Dims / 2
	parallel(x.Shape[0]*heads*steps, float64(d), func(lo, hi int) {
		scratch := borrow(2 * d)
		defer scratch.release()
		for i := lo; i < hi; i++ {
			at := []int{i / (heads * steps), i / steps % heads, i % steps}
			t := tables[min(at[0], len(tables)-1)]
			cos := t.cos[at[2]*half : (at[2]+1)*half]
			sin := t.sin[at[2]*half : (at[2]+1)*half]
			row, res := scratch.f[:d], scratch.f[d:2*d]
			loadFloats(row, x, elementAt(x, at), x.Strides[3])
			copy(res, row)
			if p.Traditional {
				rotateNeighbours(res, row, cos, sin)
			} else {
				simd.RotateHalves(res, row, cos, sin)
			}
			storeFloats(out, elementAt(out, at), out.Strides[3], res)
		}
	})
}

// elementAt returns the element at the given first indices.
func elementAt(a *array.Array, at []int) int {
	off := a.Offset
	for i, n := range at {
		off += n * a.Strides[i]
	}
	return off
}

func rotateNeighbours(dst, x, cos, sin []float32) {
	sin = sin[:len(cos)]
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		dst[2*i] = a*c - b*sin[i]
		dst[2*i+1] = a*sin[i] + b*c
	}
}
