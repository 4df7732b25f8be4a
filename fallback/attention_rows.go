package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// queryRows sets rows to the queries that read a key head, times the scale.
func (t *attentionStep) queryRows(l *lane, head int, rows, space []float32) {
	for i := range t.group {
		row := rows[i*t.d : (i+1)*t.d]
		t.queryForm().set(row, t.q, t.q.Offset+(head*t.group+i)*t.q.Strides[0], t.q.Strides[1], l.anglesOf(0), space)
		simd.Scale(row, t.op.Scale)
	}
}

// update puts the new key and value of a head into the caches.
func (t *attentionStep) update(l *lane, head, place int, row, space []float32) {
	t.newKey(l, head, row, space)
	at := func(x *array.Array) int { return x.Offset + head*x.Strides[1] + place*x.Strides[2] }
	storeFloats(t.keys, at(t.keys), t.keys.Strides[3], row)
	v := floats(t.v, t.v.Offset+head*t.v.Strides[0], t.v.Strides[1], t.dv, space)
	storeFloats(t.values, at(t.values), t.values.Strides[3], v)
}

func (t *attentionStep) queryForm() headForm {
	return headForm{norm: t.op.QNorm, gain: t.qGain, eps: t.op.QEps, traditional: t.op.Traditional != 0}
}

// newKey sets row to the new key of a head.
func (t *attentionStep) newKey(l *lane, head int, row, space []float32) {
	form := headForm{norm: t.op.KNorm, gain: t.kGain, eps: t.op.KEps, traditional: t.op.Traditional != 0}
	form.set(row, t.k, t.k.Offset+head*t.k.Strides[0], t.k.Strides[1], l.anglesOf(0), space)
}

// place returns where in the caches the new token goes.
func (t *attentionStep) place() int {
	at := int(t.op.Start)
	if t.start.Present() {
		at = int(storage[int32](t.start)[t.start.Offset+2*t.start.Strides[0]])
	}
	return min(max(at, 0), t.keys.Shape[2]-1)
}

// rotation sets r to the angles of the new token.
func (t *attentionStep) rotation(r *rotation) {
	offset := int(t.op.Position)
	if t.position.Present() {
		offset = int(storage[int32](t.position)[t.position.Offset])
	}
	r.space = grown(r.space, int(t.op.Dims)/2)
	r.set(float32(offset)*t.op.RopeScale, t.waves.or(t.freqs, r.space))
}
