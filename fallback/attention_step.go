package fallback

import (
	"runtime"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// attentionStep is attention of one new token, the fused op of that name in
// csrc/ops/ops.def. Its results are those of the ops that it replaces, unless there are so many
// keys that they are divided into parts. A run's attentionForm says what the units of its loops do.
type attentionStep struct {
	op                         opdef.AttentionStepParams
	q, k, v, qGain, kGain      *array.Array
	position, start, keyLength *array.Array
	freqs, keys, values, out   *array.Array
	dtype                      array.DType
	queries, heads, group      int // query heads, key heads, and query heads per key head
	d, dv                      int
	waves                      ropeWaves
	ofQueries, ofKeys          headPreparation
	softmax                    runningSoftmax // of parts: rows [mostParts, queries]
	scores                     []float32      // of one part: [queries, partKeys]
	joined                     []float32      // the result, [queries, dv], if there is no out
	form                       attentionForm  // of this run
}

const (
	// The number of keys of every part but the last is a multiple of partKeys.
	partKeys = 128
	// mostParts is the largest number of parts that keys are divided into.
	mostParts = 8
	// If there is only one part, a unit makes the scores of scoreKeys keys, or sums valueColumns
	// columns of the values.
	scoreKeys    = 32
	valueColumns = 32
)

// stepScratch returns the size of what the loops hand on, in numbers.
func stepScratch(a []array.Array) int {
	queries, dv := a[opdef.AttentionStep.Q.Index].Shape[0], a[opdef.AttentionStep.Values.Index].Dim(-1)
	return runningSoftmaxSize(mostParts*queries, dv) + queries*(partKeys+dv)
}

func attentionStepStages(a []array.Array, op opdef.AttentionStepParams) *Stages {
	o := &opdef.AttentionStep
	s := &Stages{Loops: []Loop{{Kernel: o.Name}, partsLoop(o.Out.Index)}, Scratch: stepScratch(a)}
	s.Make = func(a []array.Array, scratch []float32) ([]workers.Part, error) {
		t, err := newAttentionStep(a, op, scratch)
		if err != nil {
			return nil, err
		}
		t.out = &a[o.Out.Index]
		return []workers.Part{t.part(), t.results()}, nil
	}
	return s
}

// partsLoop describes the second loop, whose own operands begin with first.
func partsLoop(first int) Loop {
	o := &opdef.AttentionStep
	return Loop{Kernel: "attention_parts", First: first, Also: []int{o.KeyLength.Index, o.Values.Index}}
}

// newAttentionStep takes the operands of attention_step up to out.
func newAttentionStep(a []array.Array, op opdef.AttentionStepParams, scratch []float32) (*attentionStep, error) {
	o := &opdef.AttentionStep
	at := func(x opdef.Operand) *array.Array { return &a[x.Index] }
	t := &attentionStep{
		op: op, q: at(o.Q), k: at(o.K), v: at(o.V), qGain: at(o.QGain), kGain: at(o.KGain), position: at(o.Position),
		start: at(o.Start), keyLength: at(o.KeyLength), freqs: at(o.Freqs), keys: at(o.Keys), values: at(o.Values),
	}
	c := checker{op: o.Name}
	for name, x := range map[string]*array.Array{"q": t.q, "k": t.k, "v": t.v, "keys": t.keys, "values": t.values} {
		c.float(name, x)
	}
	c.rank("q", t.q, 2)
	c.rank("keys", t.keys, 4)
	c.rank("values", t.values, 4)
	if c.err != nil {
		return nil, c.err
	}
	t.dtype = t.q.DType
	t.queries, t.heads, t.d, t.dv = t.q.Shape[0], t.keys.Shape[1], t.q.Shape[1], t.values.Shape[3]
	c.shape("k", t.k, []int{t.heads, t.d})
	c.shape("v", t.v, []int{t.heads, t.dv})
	c.shape("keys", t.keys, []int{1, t.heads, t.keys.Shape[2], t.d})
	c.shape("values", t.values, []int{1, t.heads, t.keys.Shape[2], t.dv})
	if c.err == nil && (t.heads == 0 || t.queries%t.heads != 0 || int(op.Keys) > t.keys.Shape[2] || int(op.Dims) > t.d || op.Dims%2 != 0) {
		c.fail("%d query heads for %d key heads, %d keys of %d, %d rotated elements of %d", t.queries, t.heads, op.Keys, t.keys.Shape[2], op.Dims, t.d)
	}
	if c.err != nil {
		return nil, c.err
	}
	t.group = t.queries / t.heads
	t.waves = newRopeWaves(op.Base, int(op.Dims))
	t.ofQueries = headPreparation{norm: op.QNorm, gain: t.qGain, eps: op.QEps, traditional: op.Traditional != 0}
	t.ofKeys = headPreparation{norm: op.KNorm, gain: t.kGain, eps: op.KEps, traditional: op.Traditional != 0}
	t.softmax = newRunningSoftmax(&scratch, mostParts*t.queries, t.dv)
	t.scores, t.joined = cut(&scratch, t.queries*partKeys), cut(&scratch, t.queries*t.dv)
	return t, nil
}

// attentionStep checks the types, and the parameters that all heads share: the loops do not
// support a rotation or a length for each row.
func (c *checker) attentionStep(a []array.Array) {
	o := &opdef.AttentionStep
	for _, x := range []opdef.Operand{o.K, o.V, o.Keys, o.Values} {
		c.dtype(x.Name, &a[x.Index], a[o.Q.Index].DType)
	}
	for _, shared := range []struct {
		name    string
		operand opdef.Operand
		size    int
	}{{"position", o.Position, 1}, {"start", o.Start, 4}, {"key_length", o.KeyLength, 1}} {
		if x := &a[shared.operand.Index]; x.Present() && x.Size() != shared.size {
			c.fail("%s has %d elements, not %d", shared.name, x.Size(), shared.size)
		}
	}
}

// length returns how many keys there are.
func (t *attentionStep) length() int {
	n := int(t.op.Keys)
	if t.keyLength.Present() {
		n = min(max(int(storage[int32](t.keyLength)[t.keyLength.Offset]), 0), n)
	}
	return n
}

// split returns how many keys a part has, and the number of parts, which is at
// least 1: they depend on the length alone.
func (t *attentionStep) split(length int) (each, parts int) {
	each = max((length+partKeys*mostParts-1)/(partKeys*mostParts), 1) * partKeys
	return each, max((length+each-1)/each, 1)
}

// pieces returns how many pieces the keys are divided into, and how many keys each
// has: parts or, if there is only one, pieces of it.
func (t *attentionStep) pieces(length int) (each, count int) {
	if each, count = t.split(length); count > 1 {
		return each, count
	}
	return scoreKeys, max((length+scoreKeys-1)/scoreKeys, 1)
}

// part is the first loop.
func (t *attentionStep) part() workers.Part {
	columns := (t.dv + headColumns - 1) / headColumns
	return workers.Part{
		Units: max(mostParts, partKeys/scoreKeys, columns) * t.heads, Cost: t.partCost(),
		Size: func() int {
			length := t.length()
			switch t.form = t.formFor(length, runtime.GOMAXPROCS(0)); t.form {
			case byHeads:
				return t.heads
			case byColumns:
				return columns * t.heads
			}
			_, pieces := t.pieces(length)
			return pieces * t.heads
		},
		Prefetch: func(int, int) { t.prefetchGains() },
		Run: func(c *workers.Context, lo, hi int) error {
			l := laneOf(c, (t.group+1)*t.d+2*t.group*partKeys+runningSoftmaxSize(t.group, t.dv)+partKeys*max(t.d, t.dv)+t.dv+2*t.d)
			l.angles.use(t.waves.or(t.freqs, l.space[:t.op.Dims/2])) // each time: another op of the step may have used the lane
			for i := lo; i < hi; i++ {
				switch t.form {
				case byHeads:
					t.attendHead(l, i)
				case byColumns:
					t.attendColumns(l, i/columns, i%columns*headColumns)
				default:
					t.attend(l, i%t.heads, i/t.heads, i/t.heads+1)
				}
			}
			return nil
		},
	}
}

// attend computes pieces [lo, hi) of one key head. The piece that the new token belongs to
// also writes its key and value into the caches.
func (t *attentionStep) attend(l *lane, head, lo, hi int) {
	t.prefetchHead(head)
	length := t.length()
	each, pieces := t.pieces(length)
	space := l.space
	rows := cut(&space, (t.group+1)*t.d)
	place := t.place()
	if at := min(place/each, pieces-1); lo <= at && at < hi {
		t.update(l, head, place, rows[:t.d], space)
	}
	t.queryRows(l, head, rows, space)
	_, parts := t.split(length)
	for piece := lo; piece < hi; piece++ {
		first, end := piece*each, min((piece+1)*each, length)
		if parts > 1 {
			t.softmaxSums(piece, head, first, end, rows, space)
		} else if first < end {
			k := t.tile(t.keys, head, first, end-first, t.d, space)
			simd.Dots(t.scores[head*t.group*partKeys+first:], partKeys, rows, t.d, t.group, k.data, k.ld, end-first, t.d, false)
		}
	}
}

// attendHead computes the result of one key head.
func (t *attentionStep) attendHead(l *lane, head int) {
	length := t.length()
	_, pieces := t.pieces(length)
	t.attend(l, head, 0, pieces)
	if _, parts := t.split(length); parts == 1 {
		t.sumValues(l.space, t.scores[head*t.group*partKeys:], head, 0, t.dv)
		return
	}
	for i := range t.group {
		t.join(head*t.group+i, l.space[:t.dv])
	}
}

// attendColumns computes columns of the result of one key head, from first on. Every unit of
// a head makes the new key. Only the first writes it into the cache, and none reads it from
// there, so that units do not wait for each other. Each writes its columns of the new value.
func (t *attentionStep) attendColumns(l *lane, head, first int) {
	t.prefetchHead(head)
	length, place := t.length(), t.place()
	width := min(headColumns, t.dv-first)
	space := l.space
	key, rows, scores := cut(&space, t.d), cut(&space, t.group*t.d), cut(&space, t.group*partKeys)
	t.newKey(l, head, key, space)
	roundFloats(t.keys.DType, key)
	if first == 0 {
		storeFloats(t.keys, t.keys.Offset+head*t.keys.Strides[1]+place*t.keys.Strides[2], t.keys.Strides[3], key)
	}
	v := floats(t.v, t.v.Offset+head*t.v.Strides[0]+first*t.v.Strides[1], t.v.Strides[1], width, space)
	storeFloats(t.values, t.values.Offset+head*t.values.Strides[1]+place*t.values.Strides[2]+first*t.values.Strides[3], t.values.Strides[3], v)
	t.queryRows(l, head, rows, space)
	dots := func(at int, k rowMatrix, n int) {
		simd.Dots(scores[at:], partKeys, rows, t.d, t.group, k.data, k.ld, n, t.d, false)
	}
	if n := min(place, length); n > 0 {
		dots(0, t.tile(t.keys, head, 0, n, t.d, space), n)
	}
	if place < length {
		dots(place, rowMatrix{key, t.d}, 1)
	}
	if n := length - place - 1; n > 0 {
		dots(place+1, t.tile(t.keys, head, place+1, n, t.d, space), n)
	}
	t.sumValues(space, scores, head, first, width)
}

// softmaxSums computes what a part of the keys, [k0, end), contributes to the query
// heads of a key head: the largest score and, relative to it, the sum of the
// weights and the weighted sum of the values.
func (t *attentionStep) softmaxSums(part, head, k0, end int, rows, space []float32) {
	scores := cut(&space, t.group*partKeys)
	first := part*t.queries + head*t.group
	softmax := t.softmax.rows(first, first+t.group)
	softmax.reset()
	for ; k0 < end; k0 += partKeys {
		n := min(partKeys, end-k0)
		k := t.tile(t.keys, head, k0, n, t.d, space)
		simd.Dots(scores, partKeys, rows, t.d, t.group, k.data, k.ld, n, t.d, false)
		for i := range t.group {
			softmax.weights(i, scores[i*partKeys:i*partKeys+n])
		}
		v := t.tile(t.values, head, k0, n, t.dv, space)
		simd.MulAdd(softmax.sums, t.dv, scores, partKeys, t.group, v.data, v.ld, t.dv, n, true)
	}
}

// tile returns keys k0… of a cache as rows of d numbers.
func (t *attentionStep) tile(x *array.Array, head, k0, n, d int, buf []float32) rowMatrix {
	return tileRows(x, x.Offset+head*x.Strides[1]+k0*x.Strides[2], x.Strides[2], n, x.Strides[3], d, 1, buf)
}
