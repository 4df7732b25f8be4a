package model

import (
	"math"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Scaling changes the frequencies of RoPE, for contexts longer than those of the
// pretraining. It is a [LinearScaling], a [Llama3Scaling] or a [YarnScaling].
type Scaling interface {
	// Wavelengths returns positions per radian of each pair of a head of dims elements;
	// without scaling, that is theta^(2i/dims).
	Wavelengths(theta float64, dims int) []float32
	// Magnitude returns what queries and keys are multiplied by after they are rotated.
	Magnitude() float64
}

// LinearScaling divides all frequencies (Chen et al., 2023).
type LinearScaling struct {
	Factor float64 // >= 1
}

// Llama3Scaling is that of Llama 3.1: pairs that rotate fast keep their frequency, those
// that rotate slowly have it divided by Factor, and those between are interpolated by
// their frequencies.
type Llama3Scaling struct {
	Factor     float64 // >= 1
	LowFactor  float64 // low_freq_factor: fewer turns than this in the old context are slow
	HighFactor float64 // high_freq_factor: more turns than this are fast
	OldContext int     // original_max_position_embeddings, in tokens
}

// YarnScaling (Peng et al., 2023) does the same, except that pairs between fast and slow
// ones are interpolated by their numbers. It also changes the scale of attention.
type YarnScaling struct {
	Factor          float64 // >= 1
	BetaFast        float64 // more turns than this in the old context are fast
	BetaSlow        float64 // fewer turns than this are slow
	AttentionFactor float64 // of queries and of keys
	OldContext      int     // original_max_position_embeddings, in tokens
}

// pairs returns the result of a function of the number of each pair.
func pairs(dims int, wavelength func(i float64) float64) []float32 {
	out := make([]float32, dims/2)
	for i := range out {
		out[i] = float32(wavelength(float64(i)))
	}
	return out
}

// plain returns the wavelength of a pair without scaling.
func plain(theta, i float64, dims int) float64 { return math.Pow(theta, 2*i/float64(dims)) }

// Wavelengths implements [Scaling].
func (s LinearScaling) Wavelengths(theta float64, dims int) []float32 {
	return pairs(dims, func(i float64) float64 { return s.Factor * plain(theta, i, dims) })
}

// Wavelengths implements [Scaling].
func (s Llama3Scaling) Wavelengths(theta float64, dims int) []float32 {
	return pairs(dims, func(i float64) float64 {
		wavelength := plain(theta, i, dims)
		turns := float64(s.OldContext) / (2 * math.Pi * wavelength) // in the old context
		fast := (turns - s.LowFactor) / (s.HighFactor - s.LowFactor)
		fast = min(max(fast, 0), 1)
		// The frequency is a mean of the scaled and the old one.
		frequency := ((1-fast)/s.Factor + fast) / wavelength
		return 1 / frequency
	})
}

// Wavelengths implements [Scaling].
func (s YarnScaling) Wavelengths(theta float64, dims int) []float32 {
	// The number of the pair that makes so many turns in the old context.
	pair := func(turns float64) float64 {
		return float64(dims) * math.Log(float64(s.OldContext)/(2*math.Pi*turns)) / (2 * math.Log(theta))
	}
	low, high := max(math.Floor(pair(s.BetaFast)), 0), min(math.Ceil(pair(s.BetaSlow)), float64(dims-1))
	if low == high {
		high += 0.001
	}
	return pairs(dims, func(i float64) float64 {
		slow := min(max((i-low)/(high-low), 0), 1)
		return plain(theta, i, dims) / (slow/s.Factor + 1 - slow)
	})
}

// Magnitude implements [Scaling].
func (s LinearScaling) Magnitude() float64 { return 1 }

// Magnitude implements [Scaling].
func (s Llama3Scaling) Magnitude() float64 { return 1 }

// Magnitude implements [Scaling].
func (s YarnScaling) Magnitude() float64 { return s.AttentionFactor }

// RoPE builds the rotation of the heads of every block.
func (l *Loader[T]) RoPE(c Transformer) nn.RoPE[T] {
	r := nn.RoPE[T]{Dims: c.HeadDim, Traditional: c.RopeTraditional}
	switch {
	case c.Scaling == nil:
		r.Base = float32(c.RopeTheta)
	case l.stream == nil: // a plan: no tensor has confirmed the size of the heads yet
		l.bytes += int64(4 * (c.HeadDim / 2))
	default:
		r.Wavelengths = l.Constants(c.Scaling.Wavelengths(c.RopeTheta, c.HeadDim))
	}
	return r
}

// attentionScale returns what the products of queries and keys are multiplied by.
func (t Transformer) attentionScale() float32 {
	magnitude := 1.0
	if t.Scaling != nil {
		magnitude = t.Scaling.Magnitude()
	}
	return float32(magnitude * magnitude / math.Sqrt(float64(t.HeadDim)))
}

// readScaling reads how RoPE is scaled. A form that is not known, and settings of a form
// that are not supported, become f's error.
func (t *Transformer) readScaling(f *checkpoint.Fields) {
	const most = 1e6
	kind, inner := ropeScaling(f)
	if inner == nil {
		return
	}
	switch kind {
	case "linear":
		t.Scaling = LinearScaling{Factor: required(inner, "factor", 1, most)}
	case "llama3":
		s := Llama3Scaling{
			Factor:     required(inner, "factor", 1, most),
			LowFactor:  required(inner, "low_freq_factor", 1/most, most),
			HighFactor: required(inner, "high_freq_factor", 1/most, most),
			OldContext: oldContext(f, inner),
		}
		if s.OldContext == 0 {
			inner.Fail(oldContextField, "missing")
		}
		if s.HighFactor <= s.LowFactor {
			inner.Fail("high_freq_factor", "%g is not above low_freq_factor %g", s.HighFactor, s.LowFactor)
		}
		t.Scaling = s
	case "yarn":
		t.readYarn(f, inner)
	default:
		f.Unsupported("RoPE scaling", kind, "default", "linear", "llama3", "yarn")
	}
}

// readYarn reads a [YarnScaling]. The context becomes what the scaling is for:
// config.json often keeps the old one in max_position_embeddings.
func (t *Transformer) readYarn(f, inner *checkpoint.Fields) {
	const most = 1e6
	for _, name := range []string{"mscale", "mscale_all_dim"} {
		if inner.Has(name) {
			f.Unsupported("setting of RoPE scaling yarn", name)
		}
	}
	if inner.Has("truncate") && !inner.Flag("truncate") {
		f.Unsupported("truncate of RoPE scaling yarn", "false", "true")
	}
	s := YarnScaling{
		Factor:     required(inner, "factor", 1, most),
		BetaFast:   inner.Number("beta_fast", 32, 1/most, most),
		BetaSlow:   inner.Number("beta_slow", 1, 1/most, most),
		OldContext: oldContext(f, inner),
	}
	s.AttentionFactor = inner.Number("attention_factor", 0.1*math.Log(max(s.Factor, 1))+1, 1/most, most)
	if s.BetaFast < s.BetaSlow {
		inner.Fail("beta_fast", "%g is below beta_slow %g", s.BetaFast, s.BetaSlow)
	}
	if t.RopeTheta <= 1 {
		f.Fail("rope_theta", "%g is not above 1, which RoPE scaling yarn needs", t.RopeTheta)
	}
	if s.OldContext == 0 {
		s.OldContext = t.MaxPositions
	} else {
		scaled := min(s.Factor*float64(s.OldContext), checkpoint.MaxSize)
		t.MaxPositions = max(t.MaxPositions, int(scaled))
	}
	t.Scaling = s
}

const oldContextField = "original_max_position_embeddings"

// oldContext reads the context before scaling, in transformers' order: beside the object for RoPE
// scaling, then in it. It is 0 where neither has it.
func oldContext(f, inner *checkpoint.Fields) int {
	return f.SizeOr(oldContextField, inner.SizeOr(oldContextField, 0))
}

// required reads a number that must be given.
func required(f *checkpoint.Fields, name string, low, high float64) float64 {
	if !f.Has(name) {
		f.Fail(name, "missing")
	}
	return f.Number(name, 1, low, high)
}

// ropeScaling returns the object that describes how RoPE is scaled, and the name of
// its form, such as "llama3"; nil and "default" if it is not scaled.
func ropeScaling(f *checkpoint.Fields) (kind string, scaling *checkpoint.Fields) {
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		inner := f.Object(name)
		if inner == nil {
			continue
		}
		if kind = inner.Text("rope_type"); kind == "" {
			kind = inner.Text("type")
		}
		if kind == "" && !inner.Has("factor") {
			continue // it holds other things
		}
		if kind != "default" {
			return kind, inner
		}
	}
	return "default", nil
}

// readTheta reads the base of RoPE, which newer files keep in rope_parameters.
func readTheta(f *checkpoint.Fields) float64 {
	const low, high = 1, 1e15
	theta := f.Number("rope_theta", 10_000, low, high)
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		if inner := f.Object(name); inner != nil {
			theta = inner.Number("rope_theta", theta, low, high)
		}
	}
	return theta
}
