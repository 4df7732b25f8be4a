package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// RandomParams are the parameters of the random op.
type RandomParams struct {
	Kind  opdef.RandomKind
	First float32 // the lower end, or the mean
	Scale float32 // the width, or the standard deviation
	Limit float32 // the largest result of RandomUniform
}

// Random fills out, a contiguous float array, with random numbers. Element i is
// computed from word i mod 4 of Philox with the seed as key and (i/4, counter, 1
// + kind) as counter:
//
//   - opdef.RandomUniform: min(First + Scale * u, Limit), where u is the word's upper
//     24 bits in units of 2^-24; computed in float32
//   - opdef.RandomNormal: First + Scale * z, where z comes from a pair of words by the
//     method of Box and Muller; the radius is made of 24 bits of the first one and
//     is at most 5.8, the angle of all bits of the second
//
// Errors: ErrInvalid for other shapes or types, or an unknown kind.
func Random(state, out array.Array, p RandomParams) error {
	c := checker{op: "random"}
	c.array("state", &state)
	c.dtype("state", &state, array.Uint32)
	c.shape("state", &state, []int{opdef.RandomStateSize})
	c.float("out", &out)
	if c.err == nil && !out.IsContiguous() {
		c.fail("out has strides %v", out.Strides)
	}
	if p.Kind >= opdef.NumRandomKinds {
		c.fail("kind %d does not exist", p.Kind)
	}
	if c.err != nil {
		return c.err
	}
	var w [opdef.RandomStateSize]uint32
	for i := range w {
		w[i] = storage[uint32](&state)[state.Offset+i*state.Strides[0]]
	}
	n := out.Size()
	blocks := (n + blockSize - 1) / blockSize
	parallel(blocks, 20*blockSize, func(lo, hi int) {
		scratch := borrow(blockSize)
		defer scratch.release()
		for b := lo; b < hi; b++ {
			first := b * blockSize
			res := scratch.f[:min(blockSize, n-first)]
			for i := 0; i < len(res); i += 4 {
				r := Philox([4]uint32{uint32((first + i) / 4), w[2], w[3], uint32(opdef.PhiloxRandom) + uint32(p.Kind)}, [2]uint32{w[0], w[1]})
				four := p.four(r)
				copy(res[i:], four[:])
			}
			storeFloats(&out, out.Offset+first, 1, res)
		}
	})
	return nil
}

// four returns the four numbers of four words.
func (p *RandomParams) four(r [4]uint32) (out [4]float32) {
	if p.Kind == opdef.RandomUniform {
		for i, w := range r {
			scaled := float32(unit(w) * p.Scale) // rounded before the addition
			out[i] = min(p.First+scaled, p.Limit)
		}
		return out
	}
	for i := 0; i < 4; i += 2 {
		radius := math.Sqrt(-2 * math.Log(float64(unit(r[i]))+1.0/(1<<24)))
		sin, cos := math.Sincos(float64(r[i+1]) * (2 * math.Pi / (1 << 32)))
		out[i] = float32(float64(p.First) + float64(p.Scale)*(radius*cos))
		out[i+1] = float32(float64(p.First) + float64(p.Scale)*(radius*sin))
	}
	return out
}

// unit returns a word's upper bits as a number in [0, 1), exactly.
func unit(w uint32) float32 { return float32(w>>8) / (1 << 24) }
