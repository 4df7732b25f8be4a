package main

import (
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

func arrayOf(t *testing.T, x checkpoint.Tensor) array.Array {
	a, err := array.New(x.DType, x.Shape...)
	require.NoError(t, err)
	require.Equal(t, len(a.Data), copy(a.Data, x.Data))
	return a
}

// dequantized returns what a module's weights stand for.
func dequantized(t *testing.T, tensors []checkpoint.Tensor, p checkpoint.Packing, m module) []float32 {
	w, scales, biases := arrayOf(t, tensors[0]), arrayOf(t, tensors[1]), array.Array{}
	if len(tensors) == 3 {
		biases = arrayOf(t, tensors[2])
	}
	mode := map[string]opdef.Mode{"": opdef.ModeAffine, "mxfp4": opdef.ModeMXFP4, "nvfp4": opdef.ModeNVFP4, "mxfp8": opdef.ModeMXFP8}[p.Mode]
	out := make([]float32, m.out*m.in)
	y, err := array.Of(out, m.out, m.in)
	require.NoError(t, err)
	require.NoError(t, fallback.Dequantize(w, scales, biases, y, fallback.Quantization{GroupSize: p.GroupSize, Bits: p.Bits, Mode: mode}))
	return out
}

// A product of rows with random weights keeps their variance, to the next power of two if scales are such.
func TestRandomWeightsOfEveryPacking(t *testing.T) {
	m := module{"m", 64, 1024}
	for text, within := range map[string]float64{
		"2g32": 0.05, "3g64": 0.05, "4g128": 0.05, "5g64": 0.05, "6g128": 0.05, "8g64": 0.05, "nvfp4": 0.15, "MXFP4": 1, "mxfp8": 1,
	} {
		p, err := parsePacking(text)
		require.NoError(t, err)
		sum := 0.0
		weights := dequantized(t, randomModule(rand.NewChaCha8([32]byte{1}), m, p), p, m)
		for _, w := range weights {
			sum += float64(w) * float64(w)
		}
		gain := math.Sqrt(sum / float64(m.out))
		require.Less(t, math.Abs(math.Log2(gain)), within, text)
	}
}

func TestModelsOfOtherPackingsAreMeasured(t *testing.T) {
	for _, packing := range []string{"8g64", "mxfp4"} {
		dir := filepath.Join(t.TempDir(), packing)
		r := measure(t, "--shape", "tiny", "--packing", packing, "--out", dir, "--device", "cpu", "-p", "4", "-n", "2", "-r", "1", "--profile", "0")
		require.Len(t, r.Tests, 3)
		err := run(t.Context(), []string{"--shape", "tiny", "--out", dir, "--device", "cpu"}, io.Discard, io.Discard)
		require.ErrorContains(t, err, "another model")
	}
}
