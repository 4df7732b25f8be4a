package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// results is the second loop of attention: over query heads or, if there is only one
// part, over columns of the values of key heads.
func (t *attentionStep) results() workers.Part {
	columns := (t.dv + valueColumns - 1) / valueColumns
	alone := func() bool {
		_, parts := t.split(t.length())
		return parts == 1
	}
	return workers.Part{
		Units: max(t.queries, t.heads*columns), Cost: 1500 + float64(mostParts*t.dv)/2,
		Size: func() int {
			if t.form != byPieces {
				return 0
			}
			if alone() {
				return t.heads * columns
			}
			return t.queries
		},
		Run: func(c *workers.Context, lo, hi int) error {
			width := min(valueColumns, t.dv)
			l := laneOf(c, max(t.dv, t.group*partKeys+runningSoftmaxSize(t.group, width)+partKeys*width))
			for i := lo; i < hi; i++ {
				if alone() {
					head, first := i/columns, i%columns*valueColumns
					t.sumValues(l.space, t.scores[head*t.group*partKeys:], head, first, min(valueColumns, t.dv-first))
				} else {
					t.join(i, l.space[:t.dv])
				}
			}
			return nil
		},
	}
}

// sumValues sums columns of the values of a key head, from first on, by the weights of
// the scores of the only part, which are rows of partKeys numbers.
func (t *attentionStep) sumValues(space, scores []float32, head, first, width int) {
	n := t.length()
	weights := cut(&space, t.group*partKeys)
	softmax := newRunningSoftmax(&space, t.group, width)
	softmax.reset()
	for i := range t.group {
		row := weights[i*partKeys:][:n]
		copy(row, scores[i*partKeys:])
		softmax.weights(i, row)
	}
	if n > 0 {
		v := t.values
		tile := tileRows(v, v.Offset+head*v.Strides[1]+first*v.Strides[3], v.Strides[2], n, v.Strides[3], width, 1, space)
		simd.MulAdd(softmax.sums, width, weights, partKeys, t.group, tile.data, tile.ld, width, n, true)
	}
	for i := range t.group {
		row := softmax.result(i)
		roundFloats(t.dtype, row)
		t.put(head*t.group+i, first, row)
	}
}

// join combines the parts of a query head's attention, in row, of dv numbers, and stores the result.
func (t *attentionStep) join(head int, row []float32) {
	_, parts := t.split(t.length())
	largest := float32(math.Inf(-1))
	for i := range parts {
		largest = max(largest, t.softmax.largest[i*t.queries+head])
	}
	var total float32
	var factors [mostParts]float32
	for i := range parts {
		at := i*t.queries + head
		switch {
		case t.softmax.total[at] == 0:
			continue
		case t.softmax.largest[at] == largest:
			factors[i] = 1
		default:
			factors[i] = simd.Exp32(t.softmax.largest[at] - largest)
		}
		total += factors[i] * t.softmax.total[at]
	}
	simd.MulAdd(row, t.dv, factors[:], parts, 1, t.softmax.sums[head*t.dv:], t.queries*t.dv, t.dv, parts, false)
	if total == 0 { // no key has a weight, but the sums are NaN where values are not finite
		clear(row)
	} else {
		simd.Scale(row, 1/total)
	}
	roundFloats(t.dtype, row)
	t.put(head, 0, row)
}

// put stores columns of the result of a query head, from first on.
func (t *attentionStep) put(head, first int, row []float32) {
	if t.out == nil {
		copy(t.joined[head*t.dv+first:], row)
		return
	}
	storeFloats(t.out, t.out.Offset+head*t.out.Strides[0]+first*t.out.Strides[1], t.out.Strides[1], row)
}
