package optest

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/ops"
)

// form is a bit width and group size of a quantization mode.
type form struct {
	bits, group int
	mode        ops.Mode
}

// forms are all that exist: those of the affine mode, then the one of each other.
func forms() (all []form) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			all = append(all, form{bits, group, ops.ModeAffine})
		}
	}
	for _, q := range []ops.Quantization{ops.MXFP4, ops.NVFP4, ops.MXFP8} {
		all = append(all, form{q.Bits, q.GroupSize, q.Mode})
	}
	return all
}

func (f form) affine() bool { return f.mode == ops.ModeAffine }

// quantized makes a random matrix [lead…, k] of this form: any codes, scales of
// either sign; without biases, numbers whose scales are uint8 whatever dtype is.
func (f form) quantized(r source, dtype array.DType, k int, lead ...int) map[string]array.Array {
	words := dense(array.Uint32, make([]float64, size(lead)*k*f.bits/32), append(lead[:len(lead):len(lead)], k*f.bits/32)...)
	for i, s := 0, array.Storage[uint32](words); i < len(s); i++ {
		s[i] = r.Uint32()
		if f.mode == ops.ModeMXFP8 {
			s[i] &= 0xf7f7f7f7 // no NaN
		}
	}
	groups := append(lead[:len(lead):len(lead)], k/f.group)
	switch f.mode {
	case ops.ModeAffine:
		scales := r.normal(dtype, 1/float64(int(1)<<f.bits), groups...)
		return map[string]array.Array{"w": words, "scales": scales, "biases": r.normal(dtype, 0.3, groups...)}
	case ops.ModeNVFP4:
		return map[string]array.Array{"w": words, "scales": r.integers(array.Uint8, 0, 80, groups...)}
	case ops.ModeMXFP8:
		return map[string]array.Array{"w": words, "scales": r.integers(array.Uint8, 114, 120, groups...)}
	}
	return map[string]array.Array{"w": words, "scales": r.integers(array.Uint8, 121, 128, groups...)}
}

// blank is quantized with zeros throughout.
func (f form) blank(dtype array.DType, k int, lead ...int) map[string]array.Array {
	with := func(n int) []int { return append(lead[:len(lead):len(lead)], n) }
	if !f.affine() {
		scales := blank(array.Uint8, with(k/f.group)...)
		one := byte(127) // of E8M0; scales of 2^-127 take ways that no matrix takes
		if f.mode == ops.ModeNVFP4 {
			one = 0x38
		}
		for i := range scales.Data {
			scales.Data[i] = one
		}
		return map[string]array.Array{"w": blank(array.Uint32, with(k*f.bits/32)...), "scales": scales}
	}
	return map[string]array.Array{
		"w":      blank(array.Uint32, with(k*f.bits/32)...),
		"scales": blank(dtype, with(k/f.group)...), "biases": blank(dtype, with(k/f.group)...),
	}
}

func (f form) String() string {
	if !f.affine() {
		return f.mode.String()
	}
	return fmt.Sprintf("b%dg%d", f.bits, f.group)
}

// formOf is the form to measure for a line of the report: that of the mode which
// its kind ends with, else one of the affine mode.
func formOf(kind string) form {
	for _, f := range forms() {
		if !f.affine() && strings.HasSuffix(kind, f.mode.String()) {
			return f
		}
	}
	return form{4, 64, ops.ModeAffine}
}

func (f form) params() Params {
	p := Params{GroupSize: f.group, Bits: f.bits}
	if !f.affine() {
		p.Mode = f.mode.String()
	}
	return p
}

// mode returns the mode of a case.
func (p Params) mode() ops.Mode {
	for _, f := range forms() {
		if p.Mode == f.mode.String() {
			return f.mode
		}
	}
	return ops.ModeAffine
}

// e2m1 and e4m3 give what a code stands for, bit by bit.
func e2m1(code int) float64 {
	v := math.Ldexp(float64(2+code&1), code>>1&3-2)
	if code>>1&3 == 0 {
		v = float64(code&1) / 2
	}
	return math.Copysign(v, float64(7-code))
}

func e4m3(code int) float64 {
	v := math.Ldexp(float64(8+code&7), code>>3&15-10)
	switch {
	case code&127 == 127:
		v = math.NaN()
	case code>>3&15 == 0:
		v = math.Ldexp(float64(code&7), -9)
	}
	return math.Copysign(v, float64(127-code))
}

// scaleOf gives what a code of a scale stands for in a mode without biases.
func scaleOf(mode ops.Mode, code int) float64 {
	switch {
	case mode == ops.ModeNVFP4:
		return e4m3(code)
	case code == 255:
		return math.Inf(1)
	}
	return math.Ldexp(1, code-127)
}

// unpackCodes returns the codes of the case's quantized matrix, row after row.
func unpackCodes(words array.Array, bits int) []int {
	var out []int
	rows(words, func(words []float64) {
		for i := range len(words) * 32 / bits {
			code := 0
			for b := range bits { // bit by bit, as the format describes them
				at := i*bits + b
				code |= int(uint32(words[at/32])>>(at%32)&1) << b
			}
			out = append(out, code)
		}
	})
	return out
}

// unpack returns the elements of the case's quantized matrix, row after row.
func unpack(c *Case) []float64 {
	mode, scales, biases := c.Params.mode(), floats(c.In["scales"]), []float64(nil)
	if mode == ops.ModeAffine {
		biases = floats(c.In["biases"])
	}
	codes := unpackCodes(c.In["w"], c.Params.Bits)
	out := make([]float64, len(codes))
	for i, code := range codes {
		g := i / c.Params.GroupSize
		switch mode {
		case ops.ModeAffine:
			out[i] = scales[g]*float64(code) + biases[g]
		case ops.ModeMXFP8:
			out[i] = scaleOf(mode, int(scales[g])) * e4m3(code)
		default:
			out[i] = scaleOf(mode, int(scales[g])) * e2m1(code)
		}
	}
	return out
}

func drawForm(t *rapid.T) form { return rapid.SampledFrom(forms()).Draw(t, "form") }

// drawQuantized draws a matrix of a form, stored in any layout.
func drawQuantized(t *rapid.T, r source, f form, k int, lead ...int) map[string]array.Array {
	in := f.quantized(r, drawType(t, "scale type", floatTypes), k, lead...)
	for _, name := range []string{"w", "scales", "biases"} {
		if a, is := in[name]; is {
			in[name] = drawLayout(t, name, a)
		}
	}
	return in
}

// largestElement returns the largest magnitude that an element of a quantized matrix
// can have.
func largestElement(c *Case) float64 {
	if c.Params.mode() != ops.ModeAffine {
		return largest(unpack(c))
	}
	codes := float64(int(1)<<c.Params.Bits - 1)
	return largest(floats(c.In["scales"]))*codes + largest(floats(c.In["biases"]))
}

// exactElements reports whether the elements of a quantized matrix take no rounding.
func exactElements(c *Case) bool { return c.Params.mode() != ops.ModeAffine }
