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
	position float32
	waves    ropeWaves
	cos, sin []float32
	space    []float32 // for frequencies
}

// set computes the angles of a position, which is scaled already, unless they are those that r has.
func (r *rotation) set(position float32, waves ropeWaves) {
	if r.position == position && r.waves.inverse == waves.inverse && slices.Equal(r.waves.waves, waves.waves) {
		return
	}
	r.position = position
	r.waves = ropeWaves{waves: append(r.waves.waves[:0], waves.waves...), inverse: waves.inverse}
	r.cos, r.sin = grown(r.cos, len(waves.waves)), grown(r.sin, len(waves.waves))
	waves.angles(position, r.cos, r.sin)
}
