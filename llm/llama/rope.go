package llama

import (
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Scaling is the RoPE scaling of Llama 3.1, "llama3" in config.json: pairs that
// rotate fast keep their frequency, those that rotate slowly have it divided by
// Factor, and those between are interpolated.
type Scaling struct {
	Factor     float64 // >= 1
	LowFactor  float64 // low_freq_factor: fewer turns than this in the old context are slow
	HighFactor float64 // high_freq_factor: more turns than this are fast
	OldContext int     // original_max_position_embeddings, in tokens
}

func readScaling(f *checkpoint.Fields) *Scaling {
	const most = 1e6
	s := &Scaling{
		Factor:     f.Number("factor", 0, 1, most),
		LowFactor:  f.Number("low_freq_factor", 0, 1/most, most),
		HighFactor: f.Number("high_freq_factor", 0, 1/most, most),
		OldContext: f.Size("original_max_position_embeddings"),
	}
	for _, name := range []string{"factor", "low_freq_factor", "high_freq_factor"} {
		if !f.Has(name) {
			f.Fail(name, "missing")
		}
	}
	if s.HighFactor <= s.LowFactor {
		f.Fail("high_freq_factor", "%g is not above low_freq_factor %g", s.HighFactor, s.LowFactor)
	}
	return s
}

// rope returns the rotation of the heads of every block.
func rope[T kompute.Float](l *model.Loader[T], c Config) nn.RoPE[T] {
	if c.Scaling == nil {
		return nn.RoPE[T]{Dims: c.HeadDim, Base: float32(c.RopeTheta)}
	}
	return nn.RoPE[T]{Dims: c.HeadDim, Wavelengths: l.Constants(c.Scaling.wavelengths(c.RopeTheta, c.HeadDim))}
}

// wavelengths returns positions per radian of each pair, theta^(2i/dims) scaled.
func (s *Scaling) wavelengths(theta float64, dims int) []float32 {
	out := make([]float32, dims/2)
	for i := range out {
		wavelength := math.Pow(theta, 2*float64(i)/float64(dims))
		turns := float64(s.OldContext) / (2 * math.Pi * wavelength) // in the old context
		fast := (turns - s.LowFactor) / (s.HighFactor - s.LowFactor)
		fast = min(max(fast, 0), 1)
		// The frequency is a mean of the scaled and the old one.
		frequency := ((1-fast)/s.Factor + fast) / wavelength
		out[i] = float32(1 / frequency)
	}
	return out
}
