package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

const (
	// prefetchedCodes is how many bytes of the codes of each matrix a worker prefetches before it
	// prepares x. Products prefetch codes some KiB ahead of those that they multiply.
	prefetchedCodes = 4096
	// nearBytes is how much may be prefetched into the nearest cache, a part of what it holds.
	nearBytes = 16 << 10
	// prefetchedResults is how many results a worker takes from others' caches at a time.
	prefetchedResults = 1024
)

// prefetchMatrix loads rows into the cache, if they follow one another.
func prefetchMatrix(a *array.Array, first, rows int) {
	if rows <= 0 || !a.Present() || a.Strides[1] != 1 || a.Strides[0] != a.Shape[1] {
		return
	}
	size := a.DType.Size()
	at := (a.Offset + first*a.Strides[0]) * size
	simd.Prefetch(a.Data[at : at+rows*a.Shape[1]*size])
}

// prefetchElements loads n elements of a contiguous array into the cache.
func prefetchElements(a *array.Array, first, n int) {
	data := elements(a, first, n)
	near := min(len(data), nearBytes)
	simd.PrefetchNear(data[:near])
	simd.Prefetch(data[near:])
}

// prefetch prefetches what columns [lo, hi) of the products read, apart from x: most of it does not
// depend on other ops.
func (p *projection) prefetch(lo, hi int) {
	prefetchElements(p.gain, 0, p.gain.Size())
	if p.rows == 1 {
		prefetchElements(p.residual, lo, hi-lo)
	}
	for i, m := range p.matrices {
		from, to := p.columnsOf(i, lo, hi)
		rowBytes := m.w.Shape[1] * m.w.DType.Size()
		rows := min(to-from, max(prefetchedCodes/max(rowBytes, 1), 1))
		prefetchMatrix(m.w, from, rows)
		m.prefetchFactors(from, rows)
	}
}

// prefetchRows prefetches rows [lo, hi), which other processors have just written, so that loads do
// not wait for one line of the cache after another.
func (p *projection) prefetchRows(lo, hi int) {
	k := p.x.Dim(-1)
	prefetchElements(p.x, lo*k, (hi-lo)*k)
	prefetchElements(p.up, lo*k, (hi-lo)*k)
}

// prefetchResults takes results, from column lo on, from the processors that have read the last ones.
func (p *projection) prefetchResults(lo, hi int) {
	if p.rows > 1 || findsLargest(p.op) {
		return
	}
	for i := range p.outs {
		from, to := p.columnsOf(i, lo, min(hi, lo+prefetchedResults))
		simd.PrefetchToWrite(elements(&p.outs[i], from, to-from))
	}
}

// prefetchGains prefetches the gains of the norms of heads.
func (t *attentionStep) prefetchGains() {
	prefetchElements(t.qGain, 0, t.qGain.Size())
	prefetchElements(t.kGain, 0, t.kGain.Size())
}

// prefetchHead prefetches what other processors have just written: the queries, key and value of a
// new token.
func (t *attentionStep) prefetchHead(head int) {
	prefetchElements(t.q, head*t.group*t.d, t.group*t.d)
	prefetchElements(t.k, head*t.d, t.d)
	prefetchElements(t.v, head*t.dv, t.dv)
}

// prefetchHeads prefetches key heads [lo, hi) of a row, and their queries and values.
func (h *pagedHeads) prefetchHeads(row, lo, hi int) {
	for _, x := range []*array.Array{h.q, h.k, h.v} {
		all := x.Shape[1] * x.Shape[2]
		each := all / max(h.heads, 1)
		prefetchElements(x, row*all+lo*each, (hi-lo)*each)
	}
}
