package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Penalties are a row of the penalties of Penalize.
type Penalties [opdef.NumPenaltyParams]float32

// Apply returns the logit of a token with that count, which is not 0. Each operation
// rounds to float32, as on a GPU.
func (p *Penalties) Apply(logit float32, count uint32) float32 {
	if logit > 0 {
		logit *= p[opdef.PenaltyPositive]
	} else {
		logit *= p[opdef.PenaltyOther]
	}
	if answers := count &^ (1 << opdef.InPromptBit); answers != 0 {
		// The conversions keep the compiler from fusing a product and a sum.
		times := float32(p[opdef.PenaltyFrequency] * float32(answers))
		logit = float32(logit) - float32(p[opdef.PenaltyPresence]+times)
	}
	return logit
}

// Penalize changes row n of logits in place by row rows[n] of penalties, as Penalties.Apply
// does, where that of counts is not 0; a row that does not exist changes nothing. logits
// are float32 [N, V], counts uint32 [S, V], penalties float32 [S, NumPenaltyParams], and
// rows int32 [N].
//
// Errors: ErrInvalid for other shapes or types.
func Penalize(logits, counts, penalties, rows array.Array) error {
	c := checker{op: "penalize"}
	c.array("logits", &logits)
	c.dtype("logits", &logits, array.Float32)
	c.rank("logits", &logits, 2)
	c.array("counts", &counts)
	c.dtype("counts", &counts, array.Uint32)
	c.rank("counts", &counts, 2)
	c.array("penalties", &penalties)
	c.dtype("penalties", &penalties, array.Float32)
	c.array("rows", &rows)
	c.dtype("rows", &rows, array.Int32)
	if c.err == nil {
		c.shape("counts", &counts, []int{counts.Shape[0], logits.Shape[1]})
		c.shape("penalties", &penalties, []int{counts.Shape[0], opdef.NumPenaltyParams})
		c.shape("rows", &rows, logits.Shape[:1])
	}
	if c.err != nil || logits.Size() == 0 || counts.Size() == 0 {
		return c.err
	}
	row, cols := storage[int32](&rows), logits.Shape[1]
	parallel(logits.Size(), 1, func(lo, hi int) {
		for lo < hi {
			n := lo / cols
			end := min(hi, (n+1)*cols)
			if from := int(row[rows.Offset+n*rows.Strides[0]]); from >= 0 && from < counts.Shape[0] {
				penalizeRow(&logits, &counts, penaltiesOf(&penalties, from), n, from, lo-n*cols, end-n*cols)
			}
			lo = end
		}
	})
	return nil
}

func penaltiesOf(penalties *array.Array, row int) (p Penalties) {
	all := storage[float32](penalties)
	for i := range p {
		p[i] = all[penalties.Offset+row*penalties.Strides[0]+i*penalties.Strides[1]]
	}
	return p
}

// penalizeRow changes columns [lo, hi) of row n of logits by those of row from of counts.
func penalizeRow(logits, counts *array.Array, p Penalties, n, from, lo, hi int) {
	to, of := storage[float32](logits), storage[uint32](counts)
	at, count := logits.Offset+n*logits.Strides[0], counts.Offset+from*counts.Strides[0]
	for i := lo; i < hi; i++ {
		if k := of[count+i*counts.Strides[1]]; k != 0 {
			v := &to[at+i*logits.Strides[1]]
			*v = p.Apply(*v, k)
		}
	}
}
