package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// gemm is a batch of products C [m, n] = A [m, k] · B [k, n] in float32. B is
// provided in tiles that are made once and used for many rows of A.
type gemm struct {
	batches, m, n, k int
	a                func(batch int) rowMatrix
	// tile returns B[k0:k0+kn, n0:n0+nn], as nn rows of kn numbers if dots is
	// set, else as kn rows of nn numbers. It may use buf, of kn*nn numbers.
	tile     func(batch, k0, kn, n0, nn int, buf []float32) rowMatrix
	dots     bool
	narrow   func(batch, k0, n0 int) narrowMatrix // the rows of such a tile if B has them as 16-bit numbers, else nil
	tileCost float64                              // the cost of making one element of a tile
	out      *array.Array
	outLoop  *loop // over the batch axes of out
}

// rowMatrix is a float32 matrix with contiguous rows, ld apart.
type rowMatrix struct {
	data []float32
	ld   int
}

// narrowMatrix is a matrix of 16-bit numbers with contiguous rows, ld apart.
type narrowMatrix struct {
	data  []uint16
	ld    int
	dtype array.DType
}

// maxRows is the largest number of rows of A that share a tile before it is made
// again.
const maxRows = 256

// directRows is the largest number of rows of A for which tiles of B are used as
// they are. For more rows it pays to copy the tiles into panels.
const directRows = 4

// tileSize returns how much of B is processed at a time.
func (g *gemm) tileSize() (k, n int) {
	switch {
	case !g.dots && g.m > directRows:
		return 128, 128
	case !g.dots: // parts of a few rows of B that lie one after the other
		return 16, 512
	case g.m > directRows:
		return 512, 128 // but then tiles are made for each panel
	}
	return 4096, 8 // a few rows of the transpose of B: long runs of memory
}

// run computes the products, in parallel.
func (g *gemm) run() {
	if g.batches == 0 || g.m == 0 || g.n == 0 {
		return
	}
	tileK, tileN := g.tileSize()
	tiles := (g.n + tileN - 1) / tileN
	parts := (g.m + maxRows - 1) / maxRows
	if g.batches*tiles < 8 { // few tiles: it is better to make them twice than to leave cores idle
		parts = max(parts, min(8, g.m/32))
	}
	part := (g.m + parts - 1) / parts
	cost := float64(g.k) * float64(tileN) * (0.02*float64(part) + g.tileCost)
	parallel(g.batches*parts*tiles, cost, func(lo, hi int) {
		scratch := borrow(part*g.ld(tileN) + max(tileK*tileN, panelSpace))
		defer scratch.release()
		for unit := lo; unit < hi; unit++ {
			batch, rest := unit/(parts*tiles), unit%(parts*tiles)
			m0, n0 := rest/tiles*part, rest%tiles*tileN
			if m0 < g.m {
				g.block(batch, m0, min(part, g.m-m0), n0, min(tileN, g.n-n0), scratch.f)
			}
		}
	})
}

// ld returns the length of a row of a block with that many columns: whole panels.
func (g *gemm) ld(columns int) int {
	width := simd.PanelWidth()
	return (columns + width - 1) / width * width
}

// block computes and stores one block of C.
func (g *gemm) block(batch, m0, mn, n0, nn int, space []float32) {
	ldc := g.ld(nn)
	c := cut(&space, mn*ldc)
	if g.k == 0 {
		clear(c)
	}
	a := g.a(batch)
	tileK, _ := g.tileSize()
	for k0 := 0; k0 < g.k; k0 += tileK {
		kn := min(tileK, g.k-k0)
		rows := rowMatrix{a.data[m0*a.ld+k0:], a.ld}
		if g.m > directRows {
			g.panels(c, ldc, rows, mn, batch, k0, kn, n0, nn, space)
			continue
		}
		done := g.narrowDots(c, ldc, rows, mn, batch, k0, kn, n0, nn)
		if done == nn {
			continue
		}
		b := g.tile(batch, k0, kn, n0+done, nn-done, space)
		if g.dots {
			simd.Dots(c[done:], ldc, rows.data, a.ld, mn, b.data, b.ld, nn-done, kn, k0 > 0)
		} else {
			simd.MulAdd(c, ldc, rows.data, a.ld, mn, b.data, b.ld, nn, kn, k0 > 0)
		}
	}
	at := g.outLoop.seek(g.outLoop.rank, batch)
	r := len(g.out.Shape)
	for i := range mn {
		off := at.off[0] + (m0+i)*g.out.Strides[r-2] + n0*g.out.Strides[r-1]
		storeFloats(g.out, off, g.out.Strides[r-1], c[i*ldc:i*ldc+nn])
	}
}

// narrowDots multiplies with rows of B that need no copy, and returns how many.
func (g *gemm) narrowDots(c []float32, ldc int, a rowMatrix, mn, batch, k0, kn, n0, nn int) int {
	if g.narrow == nil {
		return 0
	}
	b := g.narrow(batch, k0, n0)
	if b.dtype == array.BFloat16 {
		return simd.DotsBF16(c, ldc, a.data, a.ld, mn, b.data, b.ld, nn, kn, k0 > 0)
	}
	return simd.DotsF16(c, ldc, a.data, a.ld, mn, b.data, b.ld, nn, kn, k0 > 0)
}

// panelSpace is the size of a panel and of the tile that it is made from, in numbers.
const panelSpace = 2 * 512 * simd.MaxPanelWidth

// panels adds the products with rows [k0, k0+kn) of B to a block of C.
func (g *gemm) panels(c []float32, ldc int, a rowMatrix, mn, batch, k0, kn, n0, nn int, space []float32) {
	width := simd.PanelWidth()
	panel := cut(&space, kn*width)
	var tile rowMatrix
	if !g.dots {
		tile = g.tile(batch, k0, kn, n0, nn, space)
	}
	for j := 0; j < nn; j += width {
		cols := min(width, nn-j)
		if g.dots {
			b := g.tile(batch, k0, kn, n0+j, cols, space)
			simd.TransposePanel(panel, b.data, b.ld, cols, kn)
		} else {
			simd.CopyPanel(panel, tile.data[j:], tile.ld, cols, kn)
		}
		simd.PanelProduct(c[j:], ldc, a.data, a.ld, mn, panel, kn, k0 > 0)
	}
}

// floatMatrices gives the matrices of a [..., rows, cols] as float32: from the
// storage itself if possible, else from a copy that release frees.
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

// floatCopy is floatMatrices for arrays that must be copied.
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
