package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// gemm is a batch of products C [m, n] = A [m, k] · B [k, n] in float32. B comes
// in tiles that are made once and used for many rows of A.
type gemm struct {
	batches, m, n, k int
	a                func(batch int) rowMatrix
	// tile returns B[k0:k0+kn, n0:n0+nn], as nn rows of kn numbers if dots is
	// set, else as kn rows of nn numbers. It may use buf, of kn*nn numbers.
	tile         func(batch, k0, kn, n0, nn int, buf []float32) rowMatrix
	dots         bool
	tileK, tileN int
	tileCost     float64 // of making one element of a tile
	out          *array.Array
	outLoop      *loop // over the batch axes of out
}

// rowMatrix is a float32 matrix with contiguous rows, ld apart.
type rowMatrix struct {
	data []float32
	ld   int
}

// maxPanel is how many rows of A go with one making of a tile.
const maxPanel = 256

// run computes the products, in parallel.
func (g *gemm) run() {
	if g.batches == 0 || g.m == 0 || g.n == 0 {
		return
	}
	tiles := (g.n + g.tileN - 1) / g.tileN
	panels := (g.m + maxPanel - 1) / maxPanel
	if g.batches*tiles < 8 { // few tiles: rather make them twice than leave cores idle
		panels = max(panels, min(8, g.m/32))
	}
	panel := (g.m + panels - 1) / panels
	cost := float64(g.k) * float64(g.tileN) * (0.06*float64(panel) + g.tileCost)
	parallel(g.batches*panels*tiles, cost, func(lo, hi int) {
		scratch := borrow(panel*g.tileN + g.tileK*g.tileN)
		defer scratch.release()
		for unit := lo; unit < hi; unit++ {
			batch, rest := unit/(panels*tiles), unit%(panels*tiles)
			m0, n0 := rest/tiles*panel, rest%tiles*g.tileN
			if m0 < g.m {
				g.block(batch, m0, min(panel, g.m-m0), n0, min(g.tileN, g.n-n0), scratch.f)
			}
		}
	})
}

// block computes and stores one block of C.
func (g *gemm) block(batch, m0, mn, n0, nn int, space []float32) {
	c := cut(&space, mn*nn)
	if g.k == 0 {
		clear(c)
	}
	a := g.a(batch)
	for k0 := 0; k0 < g.k; k0 += g.tileK {
		kn := min(g.tileK, g.k-k0)
		b := g.tile(batch, k0, kn, n0, nn, space)
		rows := a.data[m0*a.ld+k0:]
		if g.dots {
			simd.Dots(c, nn, rows, a.ld, mn, b.data, b.ld, nn, kn, k0 > 0)
		} else {
			simd.MulAdd(c, nn, rows, a.ld, mn, b.data, b.ld, nn, kn, k0 > 0)
		}
	}
	at := g.outLoop.seek(g.outLoop.rank, batch)
	r := len(g.out.Shape)
	for i := range mn {
		off := at.off[0] + (m0+i)*g.out.Strides[r-2] + n0*g.out.Strides[r-1]
		storeFloats(g.out, off, g.out.Strides[r-1], c[i*nn:(i+1)*nn])
	}
}

// floatMatrices gives the matrices of a [..., rows, cols] as float32: from the
// storage itself where that is possible, else from a copy that release gives
// back.
func floatMatrices(a *array.Array) (matrix func(batch int) rowMatrix, release func()) {
	r := len(a.Shape)
	cols := a.Shape[r-1]
	if a.DType == array.Float32 && (a.Strides[r-1] == 1 || cols == 1) {
		l := newLoop(r-2, a)
		s, ld := storage[float32](a), a.Strides[r-2]
		return func(batch int) rowMatrix {
			at := l.seek(l.rank, batch)
			return rowMatrix{s[at.off[0]:], ld}
		}, func() {}
	}
	return floatCopy(a)
}

// floatCopy is floatMatrices where there must be a copy.
func floatCopy(a *array.Array) (matrix func(batch int) rowMatrix, release func()) {
	r := len(a.Shape)
	rows, cols := a.Shape[r-2], a.Shape[r-1]
	b := borrow(a.Size())
	l, _ := array.Contiguous(a.Shape...)
	to := array.Array{DType: array.Float32, Layout: l, Data: array.Bytes(b.f)}
	both := newLoop(r, a, &to)
	castFloats(&both, a, &to)
	return func(batch int) rowMatrix { return rowMatrix{b.f[batch*rows*cols:], cols} }, b.release
}
