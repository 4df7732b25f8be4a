package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// defaultPacking is that of most published 4-bit checkpoints.
const defaultPacking = "4g128"

// smallFloats are the packings without biases, and the codes that their random weights have: the bits of mask at random,
// and those of set. rms is the root of the mean square of their values.
var smallFloats = map[string]struct {
	checkpoint.Packing
	mask, set byte
	rms       float64
}{
	"mxfp4": {checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"}, 0xff, 0, 2.926},
	"nvfp4": {checkpoint.Packing{GroupSize: 16, Bits: 4, Mode: "nvfp4"}, 0xff, 0, 2.926},
	// E4M3 from 2^-3 to 2; others could be NaN.
	"mxfp8": {checkpoint.Packing{GroupSize: 32, Bits: 8, Mode: "mxfp8"}, 0x9f, 0x20, 0.845},
}

// parsePacking reads --packing: BITSgGROUP for affine codes, or the name of a mode.
func parsePacking(text string) (checkpoint.Packing, error) {
	if p, ok := smallFloats[strings.ToLower(text)]; ok {
		return p.Packing, nil
	}
	var p checkpoint.Packing
	var rest string
	n, _ := fmt.Sscanf(text, "%dg%d%s", &p.Bits, &p.GroupSize, &rest)
	bits := p.Bits >= 2 && p.Bits <= 8 && p.Bits != 7
	if group := p.GroupSize; n != 2 || !bits || group != 32 && group != 64 && group != 128 {
		return p, fmt.Errorf("--packing: %q is neither BITSgGROUP, with 2, 3, 4, 5, 6 or 8 bits and groups of 32, 64 or 128, nor mxfp4, nvfp4 or mxfp8", text)
	}
	return p, nil
}

// packingConfig is its block in config.json.
func packingConfig(p checkpoint.Packing) map[string]any {
	block := map[string]any{"group_size": p.GroupSize, "bits": p.Bits}
	if p.Mode != "" {
		block["mode"] = p.Mode
	}
	return block
}

// randomModule makes a matrix of random codes, uniform ones if they are affine, scaled so that a product keeps the
// variance of its input.
func randomModule(rng *rand.ChaCha8, m module, p checkpoint.Packing) []checkpoint.Tensor {
	codes := make([]byte, m.out*m.in*p.Bits/8)
	_, _ = rng.Read(codes) // never fails
	weight := checkpoint.Tensor{Name: m.path + ".weight", DType: kompute.DTypeUint32, Shape: []int{m.out, m.in * p.Bits / 32}, Data: codes}
	groups := []int{m.out, m.in / p.GroupSize}
	if small, ok := smallFloats[p.Mode]; ok {
		for i := range codes {
			codes[i] = codes[i]&small.mask | small.set
		}
		scales := make([]byte, groups[0]*groups[1])
		code := scaleCode(p.Mode, 1/(small.rms*math.Sqrt(float64(m.in))))
		for i := range scales {
			scales[i] = code
		}
		return []checkpoint.Tensor{weight, {Name: m.path + ".scales", DType: kompute.DTypeUint8, Shape: groups, Data: scales}}
	}
	levels := float64(int(1)<<p.Bits - 1)
	deviation := math.Sqrt((levels*levels + 2*levels) / 12)
	scale := 1 / (deviation * math.Sqrt(float64(m.in)))
	return []checkpoint.Tensor{
		weight,
		bf16Tensor(m.path+".scales", groups, func() float32 { return float32(scale) }),
		bf16Tensor(m.path+".biases", groups, func() float32 { return float32(-scale * levels / 2) }),
	}
}

// scaleCode returns the code of a mode that is nearest to a scale: an E4M3 in nvfp4, otherwise an E8M0.
func scaleCode(mode string, scale float64) byte {
	if mode != "nvfp4" {
		return byte(127 + math.Round(math.Log2(scale)))
	}
	best := 1
	for code := 2; code < 0x7f; code++ {
		if math.Abs(e4m3(code)-scale) < math.Abs(e4m3(best)-scale) {
			best = code
		}
	}
	return byte(best)
}

// e4m3 is the value of a code without a sign.
func e4m3(code int) float64 {
	if exponent := code >> 3; exponent > 0 {
		return math.Ldexp(float64(8+code&7), exponent-10)
	}
	return math.Ldexp(float64(code), -9)
}
