package sample

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Encode returns the parameters in the form in which ops.Sample reads them from a
// tensor uint32 [ops.SampleParamsSize], with first as the number of the first draw. p must be valid.
func (p Params) Encode(first uint64) []uint32 {
	w := make([]uint32, opdef.SampleParamsSize)
	w[opdef.SampleMinP] = math.MaxUint32
	w[opdef.SampleSeed], w[opdef.SampleSeed+1] = uint32(p.Seed), uint32(p.Seed>>32)
	w[opdef.SampleCounter], w[opdef.SampleCounter+1] = uint32(first), uint32(first>>32)
	if p.Greedy() {
		return w
	}
	fraction, exponent := math.Frexp(p.Temperature)
	inverse, more := math.Frexp(math.Log2E / fraction)
	mantissa := math.Round(inverse * (1 << 32))
	if mantissa == 1<<32 {
		mantissa, more = 1<<31, more+1
	}
	w[opdef.SampleScale] = uint32(mantissa)
	w[opdef.SampleExponent] = uint32(int32(more - exponent - 32))
	w[opdef.SampleTopK] = uint32(min(uint64(p.TopK), math.MaxUint32))
	if p.TopP > 0 && p.TopP < 1 {
		w[opdef.SampleTopP] = uint32(min(max(math.Round(p.TopP*(1<<32)), 1), math.MaxUint32))
	}
	if p.MinP > 0 {
		w[opdef.SampleMinP] = uint32(min(math.Floor(-math.Log2(p.MinP)*(1<<26)), math.MaxUint32))
	}
	return w
}
