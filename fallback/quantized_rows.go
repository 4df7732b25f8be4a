package fallback

import (
	"sync/atomic"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// QuantizedRows is a quantized matrix [N, K] as the right factor of products
// x·wᵀ, for callers that divide the work between their own threads:
//
//	var p PreparedRows
//	m.Reset(&p, rows)        // once, sizes memory
//	p.Set(i, row)            // each row of x, K float32 numbers
//	p.Again()                // if true, set every row again
//	m.Multiply(out, ld, &p, lo, hi)
//
// None of these starts a goroutine. Set may run concurrently for different rows
// and, once every row is set, Multiply for different ranges; a PreparedRows serves
// every matrix that m.SharesRows reports. The results do not depend on how the rows
// of x and [0, N) are divided; ranges that begin at multiples of Grain are fastest.
//
// A QuantizedRows is constant after NewQuantizedRows, and keeps no copy: the
// arrays must stay as they are.
type QuantizedRows struct {
	packed
}

// Multiply is fastest for ranges that begin at multiples of Grain.
const Grain = 32

// NewQuantizedRows checks w [N, K*bits/32] uint32 and scales and biases
// [N, K/group], of any strides; see QuantizedMatMul.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func NewQuantizedRows(w, scales, biases array.Array, q Quantization) (*QuantizedRows, error) {
	c := checker{op: "quantized_matmul"}
	m := &QuantizedRows{c.packed(&w, &scales, &biases, q)}
	c.rank("w", &w, 2)
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// N returns the number of rows of the matrix, the columns of a product.
func (m *QuantizedRows) N() int { return m.w.Shape[0] }

// K returns the length of the rows.
func (m *QuantizedRows) K() int { return m.cols }

// PreparedRows are rows of x in the form in which a matrix multiplies them. The
// zero value is ready for Reset, which reuses its memory.
type PreparedRows struct {
	rows, k int
	order   simd.Order
	limbs   []simd.Limbs // few rows
	stride  int          // bytes between them
	bytes   []byte
	floats  []float32 // many rows, contiguous
	tiled   bool      // they are in tiles instead
	tiles   simd.Tiles
	group   int         // memory of tiles
	endless atomic.Bool // a row is not finite, which tiles cannot represent
}

// maxLimbRows is the largest number of rows of x that are multiplied as whole
// numbers with the codes themselves. For more, products of dequantized panels are
// faster.
const maxLimbRows = 8

// limbRows is maxLimbRows, or less where tiles are faster.
func (a *packed) limbRows() int {
	if a.tiled() {
		return simd.LeastTileRows() - 1
	}
	return maxLimbRows
}

// integers reports whether the codes, or bytes that represent them, can be
// multiplied as whole numbers.
func (a *packed) integers() bool { return a.Mode != opdef.ModeMXFP8 }

// order returns the order in which rows of x match the codes.
func (a *packed) order() simd.Order {
	if a.Mode == opdef.ModeAffine && a.Bits == 4 {
		return simd.Halves
	}
	return simd.Natural
}

// e2m1Codes are the numbers of 4 bits of the modes without biases, doubled and
// increased by 12, so that they are codes of an affine mode with half the scale
// and a bias of -6 scales.
var e2m1Codes = func() (table simd.Table) {
	for i := range table {
		table[i] = byte(2*e2m1Pairs[i][0] + 12)
	}
	return table
}()

// Reset prepares p for that many rows of x.
func (m *QuantizedRows) Reset(p *PreparedRows, rows int) {
	p.rows, p.k, p.order = rows, m.cols, m.order()
	p.limbs, p.tiled = p.limbs[:0], false
	if rows > m.limbRows() || !m.integers() {
		if m.tiled() {
			p.tiled, p.group = true, m.GroupSize
			p.tiles.Reset(rows, p.k, p.group)
			p.endless.Store(false)
			return
		}
		p.floats = grown(p.floats, rows*p.k)
		return
	}
	p.stride = simd.LimbSpace(p.k, p.order)
	p.bytes = grown(p.bytes, rows*p.stride)
	p.limbs = grown(p.limbs, rows)
}

// tiled reports whether many rows are multiplied by tiles.
func (a *packed) tiled() bool {
	return a.Mode == opdef.ModeAffine && simd.HasTiles() && a.cols > 0
}

// grown returns a slice of n elements with undefined values; it is s itself if that is large
// enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// SharesRows reports whether rows that were prepared for m can also be multiplied
// with other.
func (m *QuantizedRows) SharesRows(other *QuantizedRows) bool {
	if m.tiled() != other.tiled() || m.tiled() && m.GroupSize != other.GroupSize {
		return false
	}
	return m.cols == other.cols && m.integers() == other.integers() && m.order() == other.order()
}

// Set sets row i of x. x may change afterwards.
func (p *PreparedRows) Set(i int, x []float32) {
	if len(p.limbs) > 0 {
		p.limbs[i].Prepare(p.bytes[i*p.stride:(i+1)*p.stride], x[:p.k], p.order)
		return
	}
	if !p.tiled {
		copy(p.floats[i*p.k:(i+1)*p.k], x)
	} else if !p.tiles.Set(i, x) {
		p.endless.Store(true)
	}
}

// Again must be called when every row is set. It reports whether all of them must
// be set once more because one is not finite: tiles cannot represent that, so the
// rows are then multiplied as floats.
func (p *PreparedRows) Again() bool {
	if !p.tiled || !p.endless.Load() {
		return false
	}
	p.tiled = false
	p.floats = grown(p.floats, p.rows*p.k)
	return true
}

// Multiply sets out[i*ld+j-lo] to the product of row i of x with row j of the
// matrix, for every i and for lo <= j < hi.
func (m *QuantizedRows) Multiply(out []float32, ld int, p *PreparedRows, lo, hi int) {
	m.MultiplyRows(out, ld, p, 0, p.rows, lo, hi)
}

// MultiplyRows is Multiply for rows [first, end) of x; row first goes to the
// beginning of out. first must be a multiple of Grain, and so must end, unless it
// is the number of rows.
func (m *QuantizedRows) MultiplyRows(out []float32, ld int, p *PreparedRows, first, end, lo, hi int) {
	switch {
	case lo >= hi || first >= end:
	case p.k == 0:
		for i := range end - first {
			clear(out[i*ld : i*ld+hi-lo])
		}
	case len(p.limbs) > 0:
		m.multiplyLimbs(out, ld, p, first, end, lo, hi)
	case p.tiled:
		m.multiplyTiles(out, ld, p, first, end, lo, hi)
	default:
		m.multiplyPanels(out, ld, p, first, end, lo, hi)
	}
}
