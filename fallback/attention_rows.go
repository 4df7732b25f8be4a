package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// queryRows sets rows to the queries that read a key head, times the scale.
func (t *attentionStep) queryRows(l *lane, head int, rows, space []float32) {
	for i := range t.group {
		row := rows[i*t.d : (i+1)*t.d]
		t.headRow(l, t.q, head*t.group+i, row, t.op.QNorm, t.qGain, t.op.QEps, space)
		simd.Scale(row, t.op.Scale)
	}
}

// update puts the new key and value of a head into the caches.
func (t *attentionStep) update(l *lane, head, place int, row, space []float32) {
	t.headRow(l, t.k, head, row, t.op.KNorm, t.kGain, t.op.KEps, space)
	at := func(x *array.Array) int { return x.Offset + head*x.Strides[1] + place*x.Strides[2] }
	storeFloats(t.keys, at(t.keys), t.keys.Strides[3], row)
	v := floats(t.v, t.v.Offset+head*t.v.Strides[0], t.v.Strides[1], t.dv, space)
	storeFloats(t.values, at(t.values), t.values.Strides[3], v)
}

// place returns where in the caches the new token goes.
func (t *attentionStep) place() int {
	at := int(t.op.Start)
	if t.start.Present() {
		at = int(storage[int32](t.start)[t.start.Offset+2*t.start.Strides[0]])
	}
	return min(max(at, 0), t.keys.Shape[2]-1)
}

// headRow sets row to a query or key, normalised and rotated. After each of these
// steps it is rounded as the result of that op would be. space has room for two
// rows.
func (t *attentionStep) headRow(l *lane, x *array.Array, head int, row []float32, norm uint32, gain *array.Array, eps float32, space []float32) {
	loadFloats(row, x, x.Offset+head*x.Strides[0], x.Strides[1])
	other := cut(&space, t.d)
	if norm != 0 {
		normalize(other, row, vector(gain, space[:t.d]), eps)
		roundFloats(t.dtype, other)
		copy(row, other)
	}
	if t.op.Dims == 0 {
		return
	}
	copy(other, row)
	if t.op.Traditional != 0 {
		rotateNeighbours(row, other, l.angles.cos, l.angles.sin)
	} else {
		rotateHalves(row, other, l.angles.cos, l.angles.sin)
	}
	roundFloats(t.dtype, row)
}

// rotation is cos and sin of the angles of one position.
type rotation struct {
	position float32
	waves    ropeWaves
	cos, sin []float32
	space    []float32 // for frequencies
}

// rotation sets r to the angles of the new token, which the layers of a model share.
func (t *attentionStep) rotation(r *rotation) {
	if t.op.Dims == 0 {
		return
	}
	offset := int(t.op.Position)
	if t.position.Present() {
		offset = int(storage[int32](t.position)[t.position.Offset])
	}
	half := int(t.op.Dims) / 2
	r.space = grown(r.space, half)
	waves := t.waves.or(t.freqs, r.space)
	position := float32(offset) * t.op.RopeScale
	if r.position == position && r.waves.inverse == waves.inverse && slices.Equal(r.waves.waves, waves.waves) {
		return
	}
	r.position = position
	r.waves = ropeWaves{waves: append(r.waves.waves[:0], waves.waves...), inverse: waves.inverse}
	r.cos, r.sin = grown(r.cos, half), grown(r.sin, half)
	waves.angles(position, r.cos, r.sin)
}
