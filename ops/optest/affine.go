package optest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/array"
)

// form is a bit width and group size of affine quantization.
type form struct{ bits, group int }

// forms are all that exist.
func forms() (all []form) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			all = append(all, form{bits, group})
		}
	}
	return all
}

// quantized makes a random matrix [lead…, k] of this form: any codes, scales of
// either sign.
func (f form) quantized(r source, dtype array.DType, k int, lead ...int) map[string]array.Array {
	words := dense(array.Uint32, make([]float64, size(lead)*k*f.bits/32), append(lead[:len(lead):len(lead)], k*f.bits/32)...)
	for i, s := 0, array.Storage[uint32](words); i < len(s); i++ {
		s[i] = r.Uint32()
	}
	groups := append(lead[:len(lead):len(lead)], k/f.group)
	scales := r.normal(dtype, 1/float64(int(1)<<f.bits), groups...)
	return map[string]array.Array{"w": words, "scales": scales, "biases": r.normal(dtype, 0.3, groups...)}
}

// blank is quantized with zeros throughout.
func (f form) blank(dtype array.DType, k int, lead ...int) map[string]array.Array {
	with := func(n int) []int { return append(lead[:len(lead):len(lead)], n) }
	return map[string]array.Array{
		"w":      blank(array.Uint32, with(k*f.bits/32)...),
		"scales": blank(dtype, with(k/f.group)...), "biases": blank(dtype, with(k/f.group)...),
	}
}

func (f form) String() string { return fmt.Sprintf("b%dg%d", f.bits, f.group) }

func (f form) params() Params { return Params{GroupSize: f.group, Bits: f.bits} }

// unpack returns the elements of the case's quantized matrix, row after row.
func unpack(c *Case) []float64 {
	bits, group := c.Params.Bits, c.Params.GroupSize
	var out []float64
	scales, biases := floats(c.In["scales"]), floats(c.In["biases"])
	rows(c.In["w"], func(words []float64) {
		n := len(words) * 32 / bits
		for i := range n {
			code := 0
			for b := range bits { // bit by bit, as the format describes them
				at := i*bits + b
				code |= int(uint32(words[at/32])>>(at%32)&1) << b
			}
			g := len(out) / group
			out = append(out, scales[g]*float64(code)+biases[g])
		}
	})
	return out
}

func drawForm(t *rapid.T) form { return rapid.SampledFrom(forms()).Draw(t, "form") }

// drawQuantized draws a matrix of a form, stored in any layout.
func drawQuantized(t *rapid.T, r source, f form, k int, lead ...int) map[string]array.Array {
	in := f.quantized(r, drawType(t, "scale type", floatTypes), k, lead...)
	for _, name := range []string{"w", "scales", "biases"} {
		in[name] = drawLayout(t, name, in[name])
	}
	return in
}

// largestElement returns the magnitude that the elements of a quantized matrix
// do not pass.
func largestElement(c *Case) float64 {
	codes := float64(int(1)<<c.Params.Bits - 1)
	return largest(floats(c.In["scales"]))*codes + largest(floats(c.In["biases"]))
}
