package fallback

import (
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// ropeWaves determine the angles of pairs: radians per position or, if frequencies
// are given, positions per radian.
type ropeWaves struct {
	waves   []float32
	inverse bool
}

// newRopeWaves returns those of a base for that many rotated elements, base^(-2i/dims).
func newRopeWaves(base float32, dims int) ropeWaves {
	w := ropeWaves{waves: make([]float32, dims/2)}
	for i := range w.waves {
		w.waves[i] = float32(math.Pow(float64(base), -2*float64(i)/float64(dims)))
	}
	return w
}

// or returns the frequencies of freqs if it is present, perhaps in buf, or else w.
func (w ropeWaves) or(freqs *array.Array, buf []float32) ropeWaves {
	if !freqs.Present() {
		return w
	}
	return ropeWaves{waves: vector(freqs, buf), inverse: true}
}

// angles sets cos and sin of the pairs at a position, which is scaled already. The
// angles are rounded to float32 as on a device.
func (w ropeWaves) angles(position float32, cos, sin []float32) {
	for i, wave := range w.waves {
		angle := position * wave
		if w.inverse {
			angle = position / wave
		}
		s, c := math.Sincos(float64(angle))
		sin[i], cos[i] = float32(s), float32(c)
	}
}

// rotation is cos and sin of the angles of one position.
type rotation struct {
	known    bool
	position float32
	cos, sin []float32
}

// rotations keeps the angles of the rows that a worker has prepared: the layers of a model rotate a row by the same ones.
type rotations struct {
	waves ropeWaves
	rows  []rotation
	last  rotation // of rows that are not kept
}

// mostRotations is the number of rows whose angles are kept.
const mostRotations = 512

// use sets the waves, of which it keeps a copy. Angles by other ones are forgotten.
func (r *rotations) use(waves ropeWaves) {
	if r.waves.inverse == waves.inverse && slices.Equal(r.waves.waves, waves.waves) {
		return
	}
	r.waves = ropeWaves{waves: append(r.waves.waves[:0], waves.waves...), inverse: waves.inverse}
	r.last.known = false
	for i := range r.rows {
		r.rows[i].known = false
	}
}

// of returns the angles of a row at a position, which is scaled already. They are valid until the next call.
func (r *rotations) of(row int, position float32) *rotation {
	one := &r.last
	if row < mostRotations {
		for len(r.rows) <= row {
			r.rows = append(r.rows, rotation{})
		}
		one = &r.rows[row]
	}
	if !one.known || one.position != position {
		half := len(r.waves.waves)
		one.known, one.position = true, position
		one.cos, one.sin = grown(one.cos, half), grown(one.sin, half)
		r.waves.angles(position, one.cos, one.sin)
	}
	return one
}
