package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// SDPAParams are the parameters of SDPA.
type SDPAParams struct {
	Scale  float32 // of the scores
	Causal bool    // a query sees no keys after its own
}

// SDPA is scaled dot-product attention, softmax(q·kᵀ·Scale + mask)·v, with
// q [B, Hq, Tq, D] and out [B, Hq, Tq, Dv] of one float type, and k [B, Hkv, Tk, D] and
// v [B, Hkv, Tk, Dv] of one, too. Query head h reads key head h/(Hq/Hkv).
//
// mask [B, Hq, Tq, Tk] is bool, true where a query sees a key, or a float that is
// added to the scores; it may be absent. keyLength, int32 [1], is the number of the keys
// that exist; if it is absent, all Tk do. With Causal, query i sees keys
// up to L - Tq + i, where L is that number. A query that sees no key gives zeros. Values of
// keys that it does not see do not matter, even if they are not finite.
//
// Errors: ErrInvalid for other shapes or types.
func SDPA(q, k, v, mask, keyLength, out array.Array, p SDPAParams) error {
	c := checker{op: "sdpa"}
	c.attention(&q, &k, &v, &out)
	if mask.Present() {
		c.array("mask", &mask)
		if c.err == nil && mask.DType != array.Bool && !mask.DType.IsFloat() {
			c.fail("mask has type %v, not bool or a float", mask.DType)
		}
		c.shape("mask", &mask, []int{q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2)})
	}
	length := k.Dim(2)
	if keyLength.Present() {
		c.array("keyLength", &keyLength)
		c.dtype("keyLength", &keyLength, array.Int32)
		c.shape("keyLength", &keyLength, []int{1})
		if c.err == nil {
			length = min(max(int(storage[int32](&keyLength)[keyLength.Offset]), 0), length)
		}
	}
	if c.err != nil {
		return c.err
	}
	if out.Size() > 0 {
		a := attention{q: &q, k: &k, v: &v, mask: &mask, out: &out, SDPAParams: p, keys: length}
		a.run()
	}
	return nil
}

// attention checks the shapes and types of q, k, v and out.
func (c *checker) attention(q, k, v, out *array.Array) {
	names := [...]string{"q", "k", "v", "out"}
	for i, a := range []*array.Array{q, k, v, out} {
		c.float(names[i], a)
		c.rank(names[i], a, 4)
	}
	c.dtype("v", v, k.DType)
	c.dtype("out", out, q.DType)
	if c.err != nil {
		return
	}
	c.shape("k", k, []int{q.Shape[0], k.Shape[1], k.Shape[2], q.Shape[3]})
	c.shape("v", v, []int{q.Shape[0], k.Shape[1], k.Shape[2], v.Shape[3]})
	c.shape("out", out, []int{q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[3]})
	if heads := k.Shape[1]; heads == 0 && q.Shape[1] != 0 || heads != 0 && q.Shape[1]%heads != 0 {
		c.fail("%d query heads are not a multiple of %d key heads", q.Shape[1], heads)
	}
}

// attention is one call: blocks of queries against blocks of keys, with a running softmax, so that scores never take
// more than one block. The queries of all heads that read one key head are processed together.
type attention struct {
	q, k, v, mask, out *array.Array
	SDPAParams
	keys int // that exist
}

const (
	fewRows  = 32  // rows of a block of queries
	manyRows = 96  // if there are many queries
	keyRows  = 128 // keys of a block: whole panels
)

// queryBlock is the state of one block of queries. Row r is query
// t0 + r%queries of head head0 + r/queries.
type queryBlock struct {
	*attention
	runningSoftmax
	batch, keyHead     int
	head0, t0, queries int
	rows               int
	q, scores          []float32 // [rows, D], [rows, keyRows]
	keyBuf, maskBuf    []float32
	panel              []float32
}

func (a *attention) run() {
	batches, heads, queries := a.q.Shape[0], a.k.Shape[1], a.q.Shape[2]
	group := a.q.Shape[1] / heads
	queryRows := fewRows
	if group*queries >= 4*manyRows {
		queryRows = manyRows
	}
	headsPer := min(group, queryRows)
	headBlocks := (group + headsPer - 1) / headsPer
	perBlock := min(max(queryRows/headsPer, 1), queries)
	blocks := (queries + perBlock - 1) / perBlock
	d, dv := a.q.Shape[3], a.v.Shape[3]
	rows := headsPer * perBlock
	cost := 0.1 * float64(rows*a.keys*(d+dv+30))
	parallel(batches*heads*headBlocks*blocks, cost, func(lo, hi int) {
		scratch := borrow(rows*(d+keyRows) + runningSoftmaxSize(rows, dv) + keyRows*max(d, dv) + keyRows + max(d, keyRows)*simd.MaxPanelWidth)
		defer scratch.release()
		for i := lo; i < hi; i++ {
			// The last queries see the most keys, so they come first.
			block, rest := blocks-1-i%blocks, i/blocks
			headBlock, rest := rest%headBlocks, rest/headBlocks
			b := queryBlock{attention: a, keyHead: rest % heads, batch: rest / heads, t0: block * perBlock}
			b.queries = min(perBlock, queries-b.t0)
			first := headBlock * headsPer
			b.head0 = b.keyHead*group + first
			b.rows = min(headsPer, group-first) * b.queries
			b.attend(scratch.f)
		}
	})
}

// index returns the head and the step of a row.
func (b *queryBlock) index(row int) (head, step int) {
	return b.head0 + row/b.queries, b.t0 + row%b.queries
}

// visible returns how many keys the query at a step may see at most.
func (b *queryBlock) visible(step int) int {
	if !b.Causal {
		return b.keys
	}
	return min(max(b.keys-b.attention.q.Shape[2]+step+1, 0), b.keys)
}

// attend computes and stores the rows of the block.
func (b *queryBlock) attend(space []float32) {
	d, dv := b.attention.q.Shape[3], b.v.Shape[3]
	b.q = cut(&space, b.rows*d)
	b.scores = cut(&space, b.rows*keyRows)
	b.runningSoftmax = newRunningSoftmax(&space, b.rows, dv)
	b.reset()
	b.maskBuf = cut(&space, keyRows)
	b.panel = cut(&space, max(d, keyRows)*simd.MaxPanelWidth)
	b.keyBuf = space
	for r := range b.rows {
		head, step := b.index(r)
		row := b.q[r*d : (r+1)*d]
		loadFloats(row, b.attention.q, elementAt(b.attention.q, []int{b.batch, head, step}), b.attention.q.Strides[3])
		simd.Scale(row, b.Scale)
	}
	keys := b.visible(b.t0 + b.queries - 1)
	for k0 := 0; k0 < keys; k0 += keyRows {
		n := min(keyRows, keys-k0)
		k := b.keyTile(b.k, k0, n, d)
		b.score(k, n, d)
		for r := range b.rows {
			b.softmax(r, k0, n)
		}
		v := b.keyTile(b.v, k0, n, dv)
		b.add(v, n, dv)
	}
	b.store()
}

// score sets the scores of the rows against n keys.
func (b *queryBlock) score(k rowMatrix, n, d int) {
	if b.rows <= directRows || d == 0 {
		simd.Dots(b.scores, keyRows, b.q, d, b.rows, k.data, k.ld, n, d, false)
		return
	}
	width := simd.PanelWidth()
	for j := 0; j < n; j += width {
		simd.TransposePanel(b.panel, k.data[j*k.ld:], k.ld, min(width, n-j), d)
		simd.PanelProduct(b.scores[j:], keyRows, b.q, d, b.rows, b.panel, d, false)
	}
}

// add adds n values, by their weights, to the sums of the rows.
func (b *queryBlock) add(v rowMatrix, n, dv int) {
	width := simd.PanelWidth()
	if b.rows <= directRows || dv%width != 0 {
		simd.MulAdd(b.sums, dv, b.scores, keyRows, b.rows, v.data, v.ld, dv, n, true)
		return
	}
	for j := 0; j < dv; j += width {
		simd.CopyPanel(b.panel, v.data[j:], v.ld, width, n)
		simd.PanelProduct(b.sums[j:], dv, b.scores, keyRows, b.rows, b.panel, n, true)
	}
}

// keyTile returns keys k0… of k or v as rows of d numbers.
func (b *queryBlock) keyTile(a *array.Array, k0, n, d int) rowMatrix {
	if d == 0 {
		return rowMatrix{}
	}
	off := elementAt(a, []int{b.batch, b.keyHead, k0})
	return tileRows(a, off, a.Strides[2], n, a.Strides[3], d, 1, b.keyBuf)
}

// softmax turns the scores of a row against keys k0… into weights.
func (b *queryBlock) softmax(r, k0, n int) {
	b.weights(r, b.hide(r, k0, n))
}

// hide adds the mask to the scores of a row against keys k0…, and makes those of hidden keys -Inf. It returns them.
func (b *queryBlock) hide(r, k0, n int) []float32 {
	scores := b.scores[r*keyRows : r*keyRows+n]
	head, step := b.index(r)
	if b.mask.Present() {
		b.addMask(scores, elementAt(b.mask, []int{b.batch, head, step, k0}))
	}
	hidden := float32(math.Inf(-1))
	for j := max(b.visible(step)-k0, 0); j < n; j++ {
		scores[j] = hidden
	}
	return scores
}

// addMask hides or shifts scores by the mask from an element on.
func (b *queryBlock) addMask(scores []float32, off int) {
	stride := b.mask.Strides[3]
	if b.mask.DType == array.Bool {
		seen, hidden := storage[uint8](b.mask), float32(math.Inf(-1))
		for j := range scores {
			if seen[off+j*stride] == 0 {
				scores[j] = hidden
			}
		}
		return
	}
	for j, m := range floats(b.mask, off, stride, len(scores), b.maskBuf) {
		if math.IsInf(float64(m), -1) {
			scores[j] = m // whatever it is, also if it is infinite or not a number
		} else {
			scores[j] += m
		}
	}
}

// store divides by the sum of the weights and rounds.
func (b *queryBlock) store() {
	hides := b.Causal || b.mask.Present()
	for r := range b.rows {
		sums := b.result(r)
		// The weights of hidden keys are 0, which makes NaNs of values that are not finite.
		if hides && hasNaN(sums) {
			b.attendSeen(r)
			sums = b.result(r)
		}
		head, step := b.index(r)
		storeFloats(b.out, elementAt(b.out, []int{b.batch, head, step}), b.out.Strides[3], sums)
	}
}

func hasNaN(x []float32) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

// attendSeen computes the sums of a row once more, from the values of the keys that it sees alone.
func (b *queryBlock) attendSeen(r int) {
	row := b.runningSoftmax.rows(r, r+1)
	row.reset()
	d, dv := b.attention.q.Shape[3], b.v.Shape[3]
	_, step := b.index(r)
	keys := b.visible(step)
	for k0 := 0; k0 < keys; k0 += keyRows {
		n := min(keyRows, keys-k0)
		k := b.keyTile(b.k, k0, n, d)
		simd.Dots(b.scores[r*keyRows:], keyRows, b.q[r*d:], d, 1, k.data, k.ld, n, d, false)
		scores, seen := b.hide(r, k0, n), b.maskBuf[:n]
		copy(seen, scores)
		b.weights(r, scores)
		v := b.keyTile(b.v, k0, n, dv)
		for from, to := 0, 0; from < n; from = to + 1 {
			for to = from; to < n && !math.IsInf(float64(seen[to]), -1); to++ {
			}
			if from < to {
				simd.MulAdd(b.of(r), dv, scores[from:], keyRows, 1, v.data[from*v.ld:], v.ld, dv, to-from, true)
			}
		}
	}
}
