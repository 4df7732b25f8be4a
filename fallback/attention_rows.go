package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// queryRows sets rows to the queries that read a key head, times the scale.
func (t *attentionStep) queryRows(l *lane, head int, rows, space []float32) {
	for i := range t.group {
		row := rows[i*t.d : (i+1)*t.d]
		t.ofQueries.set(row, t.q, t.q.Offset+(head*t.group+i)*t.q.Strides[0], t.q.Strides[1], l.angles.of(0, t.offset()), space)
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

// newKey sets row to the new key of a head.
func (t *attentionStep) newKey(l *lane, head int, row, space []float32) {
	t.ofKeys.set(row, t.k, t.k.Offset+head*t.k.Strides[0], t.k.Strides[1], l.angles.of(0, t.offset()), space)
}

// place returns where in the caches the new token goes.
func (t *attentionStep) place() int {
	at := int(t.op.Start)
	if t.start.Present() {
		at = int(storage[int32](t.start)[t.start.Offset+2*t.start.Strides[0]])
	}
	return min(max(at, 0), t.keys.Shape[2]-1)
}

// offset returns the position of the new token, scaled.
func (t *attentionStep) offset() float32 {
	at := int(t.op.Position)
	if t.position.Present() {
		at = int(storage[int32](t.position)[t.position.Offset])
	}
	return float32(at) * t.op.RopeScale
}
