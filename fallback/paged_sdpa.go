package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// PagedSDPA is attention, softmax(q·kᵀ·scale)·v, of the rows of q [R, Hq, D] over
// keys [P, Hkv, L, D] and values [P, Hkv, L, Dv] in pages (of uint8: see CacheRow),
// to out [R, Hq, Dv], of q's type. Row r sees the first lengths[r] tokens of sequence sequences[r]; token
// t of a sequence is token t%L of page table[sequence, t/L]. Pages and sequences
// that do not exist have no keys, and a row that sees no key gives zeros. table
// [S, M], sequences and lengths [R] are int32.
//
// Errors: ErrInvalid for other shapes or types.
func PagedSDPA(q, keys, values, table, sequences, lengths, out array.Array, scale float32) error {
	c := checker{op: "paged_sdpa"}
	c.pagedOperands(&q, &keys, &values, &out)
	for i, a := range []*array.Array{&table, &sequences, &lengths} {
		name := [...]string{"table", "sequences", "lengths"}[i]
		c.array(name, a)
		c.dtype(name, a, array.Int32)
	}
	c.rank("table", &table, 2)
	if c.err == nil {
		c.shape("sequences", &sequences, q.Shape[:1])
		c.shape("lengths", &lengths, q.Shape[:1])
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	p := pagedAttention{q: &q, keys: &keys, values: &values, table: &table, sequences: &sequences, lengths: &lengths, out: &out, scale: scale}
	parallel(q.Shape[0]*keys.Shape[1], p.cost(p.meanLength()), func(lo, hi int) { p.units(nil, lo, hi) })
	return nil
}

// pagedSDPAStages is the op's form in regions. The lengths are not known yet.
func pagedSDPAStages(a []array.Array, op opdef.PagedSDPAParams) *Stages {
	o := &opdef.PagedSDPA
	if a[o.Out.Index].Size() == 0 {
		return nil
	}
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	s.Make = func(a []array.Array, _ []float32) ([]workers.Part, error) {
		at := func(x opdef.Operand) *array.Array { return &a[x.Index] }
		p := &pagedAttention{
			q: at(o.Q), keys: at(o.Keys), values: at(o.Values), table: at(o.Table),
			sequences: at(o.Sequences), lengths: at(o.Lengths), out: at(o.Out), scale: op.Scale,
		}
		return []workers.Part{p.part()}, nil
	}
	return s
}

// part is the loop of a region over the units.
func (p *pagedAttention) part() workers.Part {
	run := func(c *workers.Context, lo, hi int) error {
		var l *lane
		if p.newHeads != nil {
			l = p.newHeads.lane(c)
		}
		p.units(l, lo, hi)
		return nil
	}
	most := p.table.Shape[1] * p.keys.Shape[2]
	return workers.Part{Units: p.q.Shape[0] * p.keys.Shape[1], Cost: p.cost(most/2 + 1), Run: run}
}

func (c *checker) pagedOperands(q, keys, values, out *array.Array) {
	c.float("q", q)
	c.array("keys", keys)
	c.array("values", values)
	c.pages("keys", keys)
	c.pages("values", values)
	c.float("out", out)
	c.rank("q", q, 3)
	c.rank("out", out, 3)
	c.dtype("values", values, keys.DType)
	c.dtype("out", out, q.DType)
	if c.err != nil {
		return
	}
	c.shape("keys", keys, []int{keys.Shape[0], keys.Shape[1], keys.Shape[2], CacheRow(keys.DType, q.Shape[2])})
	c.shape("values", values, []int{keys.Shape[0], keys.Shape[1], keys.Shape[2], values.Shape[3]})
	c.shape("out", out, []int{q.Shape[0], q.Shape[1], CacheHead(values.DType, values.Shape[3])})
	if heads := keys.Shape[1]; heads == 0 && q.Shape[1] != 0 || heads != 0 && q.Shape[1]%heads != 0 {
		c.fail("%d query heads are not a multiple of %d key heads", q.Shape[1], heads)
	}
}

// pagedBlock is how many keys, at most, a unit has at a time, in whole pages and at least
// one: with fewer keys, weights take longer for each.
const pagedBlock = 512

// pagedAttention is one call. A unit of work is a row with one key head: all
// query heads that read it are processed together, by blocks of pages with a running
// softmax, so the order of sums does not depend on other rows.
type pagedAttention struct {
	q, keys, values, table, sequences, lengths, out *array.Array
	scale                                           float32
	// newHeads, if not nil, prepares the heads of new tokens, none of which sees another.
	newHeads *pagedHeads
}

// pagedUnit is the state of one unit.
type pagedUnit struct {
	*pagedAttention
	runningSoftmax
	row, keyHead, group int
	step, block         int // keys of a block of pages; the same, rounded up to whole vectors
	pagedReads
	q, scores []float32 // [group, D], [group, block]
	spoiled   bool      // if there are keys, the results are NaNs
	buf       []float32 // keys or values that must be copied
}

// cost is the cost of a unit whose row sees that many keys.
func (p *pagedAttention) cost(keys int) float64 {
	return 0.1 * float64(p.q.Shape[1]/max(p.keys.Shape[1], 1)*keys*(p.q.Shape[2]+p.out.Shape[2]+30))
}

// units computes and stores units lo to hi-1. The lane is for newHeads, if there are any.
func (p *pagedAttention) units(l *lane, lo, hi int) {
	heads, page, d, dv := p.keys.Shape[1], p.keys.Shape[2], p.q.Shape[2], p.out.Shape[2]
	group := p.q.Shape[1] / heads
	step := max(pagedBlock/max(page, 1), 1) * page
	block := wholeVectors(step)
	reads := p.reads(group)
	scratch := borrow(group*(d+block) + runningSoftmaxSize(group, dv) + reads.copied*max(d, dv))
	defer scratch.release()
	spoiled, of := false, -1 // whether the units of a row give NaNs
	for i := lo; i < hi; i++ {
		space := scratch.f
		u := pagedUnit{
			pagedAttention: p, row: i / heads, keyHead: i % heads, group: group, step: step, block: block, pagedReads: reads,
			q: cut(&space, group*d), scores: cut(&space, group*block), runningSoftmax: newRunningSoftmax(&space, group, dv),
		}
		u.buf = space
		if p.newHeads != nil {
			if u.row != of {
				spoiled, of = p.meetsOther(u.row), u.row
			}
			u.spoiled = spoiled
			p.newHeads.prepare(l, u.row, u.keyHead, group, u.q)
		} else {
			u.loadQueries()
		}
		u.attend()
	}
}

// meanLength estimates how many keys a row sees.
func (p *pagedAttention) meanLength() int {
	rows, total := p.q.Shape[0], 0
	for r := range rows {
		total += p.length(r)
	}
	return total/max(rows, 1) + 1
}

// sequenceOf returns the sequence of row r, which need not exist.
func (p *pagedAttention) sequenceOf(r int) int {
	return int(storage[int32](p.sequences)[elementAt(p.sequences, []int{r})])
}

// length returns how many keys row r sees.
func (p *pagedAttention) length(r int) int {
	sequence := p.sequenceOf(r)
	if sequence < 0 || sequence >= p.table.Shape[0] {
		return 0
	}
	length := int(storage[int32](p.lengths)[elementAt(p.lengths, []int{r})])
	return min(max(length, 0), p.table.Shape[1]*p.keys.Shape[2])
}

// attend computes and stores the unit's part of the row.
func (u *pagedUnit) attend() {
	if u.group == 0 {
		return
	}
	u.reset()
	simd.Scale(u.q, u.scale)
	length := u.length(u.row)
	if u.spoiled && length > 0 {
		u.spoil()
		return
	}
	for first := 0; first < length; first += u.step {
		u.addBlock(first, min(u.step, length-first))
	}
	u.store()
}

// loadQueries sets the queries to those of the operand.
func (u *pagedUnit) loadQueries() {
	from := u.pagedAttention.q
	d := from.Shape[2]
	for h := range u.group {
		loadFloats(u.q[h*d:][:d], from, elementAt(from, []int{u.row, u.keyHead*u.group + h, 0}), from.Strides[2])
	}
}

// addBlock adds n tokens, the first of which begins a page.
func (u *pagedUnit) addBlock(first, n int) {
	whole := wholeVectors(n)
	u.hide(n, whole)
	for at, count := 0, 0; at < n; at += count {
		count = u.count(first+at, n-at)
		if !u.score(first+at, count, u.scores[at:]) {
			u.hide(at, at+count)
		}
	}
	for h := range u.group {
		u.weights(h, u.scores[h*u.block:h*u.block+whole])
	}
	for at, count := 0, 0; at < n; at += count {
		count = u.count(first+at, n-at)
		u.addValues(first+at, count, u.scores[at:])
	}
}

// hide sets the scores of keys [from, to) to -Inf, whose weights are 0.
func (u *pagedUnit) hide(from, to int) {
	for h := range u.group {
		for i := from; i < to; i++ {
			u.scores[h*u.block+i] = float32(math.Inf(-1))
		}
	}
}

// count returns how many of n tokens, from one on, are taken at a time.
func (u *pagedUnit) count(token, n int) int {
	l := u.keys.Shape[2]
	return min(n, u.piece, l-token%l)
}

// page returns the page of a token of the row's sequence, or -1 if it does not exist.
func (u *pagedUnit) page(token int) int {
	page := int(storage[int32](u.table)[elementAt(u.table, []int{u.sequenceOf(u.row), token / u.keys.Shape[2]})])
	if page >= u.keys.Shape[0] {
		return -1
	}
	return max(page, -1)
}

// spoil stores NaNs.
func (u *pagedUnit) spoil() {
	row := make([]float32, u.out.Shape[2])
	for i := range row {
		row[i] = float32(math.NaN())
	}
	for h := range u.group {
		storeFloats(u.out, elementAt(u.out, []int{u.row, u.keyHead*u.group + h, 0}), u.out.Strides[2], row)
	}
}

// store divides by the sum of the weights and rounds.
func (u *pagedUnit) store() {
	for h := range u.group {
		storeFloats(u.out, elementAt(u.out, []int{u.row, u.keyHead*u.group + h, 0}), u.out.Strides[2], u.result(h))
	}
}
