package testmodel

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// quantize encodes rows of in weights by MLX's affine rule with scales and biases of
// type dtype, and returns the three tensors (without names) and the decoded values.
func quantize(w []float32, in int, q checkpoint.Packing, dtype array.DType) (codes []uint32, scales, biases, decoded []float32) {
	words := in * q.Bits / 32
	codes = make([]uint32, len(w)/in*words)
	decoded = make([]float32, len(w))
	for at := 0; at < len(w); at += q.GroupSize {
		s, b := affineOf(w[at:at+q.GroupSize], q.Bits)
		s, b = dtype.Round(s), dtype.Round(b)
		scales, biases = append(scales, s), append(biases, b)
		for i := at; i < at+q.GroupSize; i++ {
			c := code(w[i], s, b, q.Bits)
			decoded[i] = s*float32(c) + b
			bit := i % in * q.Bits
			put(codes[i/in*words:], bit, q.Bits, c)
		}
	}
	return codes, scales, biases, decoded
}

// affineOf returns scale and bias of one group.
func affineOf(group []float32, bits int) (scale, bias float32) {
	lo, hi := group[0], group[0]
	for _, v := range group {
		lo, hi = min(lo, v), max(hi, v)
	}
	levels := float32(int(1)<<bits - 1)
	s := max((hi-lo)/levels, 1e-7)
	edge := hi
	if math.Abs(float64(lo)) > math.Abs(float64(hi)) {
		edge = lo
	} else {
		s = -s
	}
	q0 := float32(math.RoundToEven(float64(edge / s)))
	if q0 == 0 {
		return s, 0
	}
	return edge / q0, edge
}

// code returns the nearest code of v.
func code(v, scale, bias float32, bits int) uint32 {
	top := float64(int(1)<<bits - 1)
	c := math.RoundToEven(float64((v - bias) / scale))
	return uint32(min(max(c, 0), top))
}

// put writes a code of the given number of bits at a bit position of a little-endian stream.
func put(words []uint32, at, bits int, c uint32) {
	word, shift := at/32, at%32
	words[word] |= c << shift
	if shift+bits > 32 {
		words[word+1] |= c >> (32 - shift)
	}
}

var modes = map[string]opdef.Mode{"mxfp4": opdef.ModeMXFP4, "nvfp4": opdef.ModeNVFP4, "mxfp8": opdef.ModeMXFP8}

// small adds a module in a mode without biases, made by the CPU ops, which other
// tests compare with MLX's own vectors.
func (w *writer) small(path string, v []float32, out, in int, p checkpoint.Packing) {
	q := fallback.Quantization{GroupSize: p.GroupSize, Bits: p.Bits, Mode: modes[p.Mode]}
	codes, scales, decoded := make([]uint32, out*in*p.Bits/32), make([]uint8, out*in/p.GroupSize), make([]float32, len(v))
	words, factors := of(codes, out, in*p.Bits/32), of(scales, out, in/p.GroupSize)
	if err := fallback.Quantize(of(v, out, in), words, factors, array.Array{}, q); err != nil {
		panic(err)
	}
	if err := fallback.Dequantize(words, factors, array.Array{}, of(decoded, out, in), q); err != nil {
		panic(err)
	}
	w.weights[path+".weight"] = decoded
	w.add(path+".weight", array.Uint32, array.Bytes(codes), out, in*p.Bits/32)
	w.add(path+".scales", array.Uint8, array.Bytes(scales), out, in/p.GroupSize)
}

// of is a contiguous array over a slice.
func of[T array.Element](data []T, shape ...int) array.Array {
	a, err := array.Of(data, shape...)
	if err != nil {
		panic(err)
	}
	return a
}
