package checkpoint_test

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// module opens a checkpoint that holds these tensors, with the demo model's
// config.json except for its quantization.
func module(t *testing.T, quantization any, tensors ...checkpoint.Tensor) *checkpoint.Checkpoint {
	t.Helper()
	for i := range tensors {
		size := map[string]int{"U32": 4, "BF16": 2, "F32": 4, "U8": 1}[tensors[i].Stored]
		tensors[i].Data = make([]byte, size*tensors[i].Size())
	}
	var b bytes.Buffer
	require.NoError(t, checkpoint.Write(&b, tensors, nil))
	c, err := checkpoint.OpenFS(fstest.MapFS{
		checkpoint.ConfigFile:  &fstest.MapFile{Data: changed(t, object{"quantization": quantization, "quantization_config": nil})},
		checkpoint.WeightsFile: &fstest.MapFile{Data: b.Bytes()},
	}, "x")
	require.NoError(t, err)
	return c
}

func TestModule(t *testing.T) {
	tensor := func(name, stored string, shape ...int) checkpoint.Tensor {
		return checkpoint.Tensor{Name: name, Stored: stored, Shape: shape}
	}
	w, s, b := tensor("p.weight", "U32", 8, 6), tensor("p.scales", "BF16", 8, 2), tensor("p.biases", "BF16", 8, 2)
	dense, bias := tensor("p.weight", "BF16", 8, 64), tensor("p.bias", "BF16", 8)
	three := object{"group_size": 32, "bits": 3}

	m, err := module(t, three, w, s, b, bias).Module("p", 8, 64)
	require.NoError(t, err)
	require.True(t, m.Quantized)
	require.Equal(t, []int{8}, m.Bias.Shape)
	mxfp4, nvfp4 := object{"group_size": 32, "bits": 4, "mode": "mxfp4"}, object{"mode": "nvfp4"}
	four, small := tensor("p.weight", "U32", 8, 8), tensor("p.scales", "U8", 8, 2)
	m, err = module(t, mxfp4, four, small).Module("p", 8, 64)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"}, m.Packing)
	require.Equal(t, array.Uint8, m.Scales.DType)
	require.Empty(t, m.Biases.Name)
	m, err = module(t, nil, dense).Module("p", 8, 64)
	require.NoError(t, err)
	require.False(t, m.Quantized)
	require.Equal(t, array.BFloat16, m.Weight.DType)
	m, err = module(t, object{"group_size": 32, "bits": 3, "p": false}, dense).Module("p", 8, 64)
	require.NoError(t, err)
	require.False(t, m.Quantized)

	for name, c := range map[string]struct {
		c     *checkpoint.Checkpoint
		err   error
		names string
	}{
		"no block":        {module(t, nil, w, s, b), checkpoint.ErrConfig, "quantization"},
		"no weight":       {module(t, three, s, b), checkpoint.ErrMissing, "p.weight"},
		"no biases":       {module(t, three, w, s), checkpoint.ErrMissing, "p.biases"},
		"no scales":       {module(t, object{"group_size": 32, "bits": 3, "p": true}, w, b), checkpoint.ErrMissing, "p.scales"},
		"weight type":     {module(t, three, tensor("p.weight", "BF16", 8, 6), s, b), checkpoint.ErrMismatch, "p.weight"},
		"weight shape":    {module(t, three, tensor("p.weight", "U32", 8, 7), s, b), checkpoint.ErrMismatch, "U32 [8 6] (3 bits, 64 columns)"},
		"scales shape":    {module(t, three, w, tensor("p.scales", "BF16", 7, 2), b), checkpoint.ErrMismatch, "p.scales"},
		"biases type":     {module(t, three, w, s, tensor("p.biases", "F32", 8, 2)), checkpoint.ErrMismatch, "p.biases"},
		"group too wide":  {module(t, object{"group_size": 128, "bits": 3, "p": true}, w, s, b), checkpoint.ErrMismatch, "groups of 128"},
		"dense but codes": {module(t, three, w), checkpoint.ErrMismatch, "p.weight"},
		"bias shape":      {module(t, nil, dense, tensor("p.bias", "BF16", 7)), checkpoint.ErrMismatch, "p.bias"},
		"mxfp4 biases":    {module(t, mxfp4, four, small, b), checkpoint.ErrConfig, "mxfp4"},
		"mxfp4 scales":    {module(t, object{"mode": "mxfp4", "p": true}, four, s), checkpoint.ErrMismatch, "U8 [8 2] (mode mxfp4)"},
		"global scale":    {module(t, mxfp4, four, small, tensor("p.global_scale", "F32")), checkpoint.ErrUnsupported, "p.global_scale"},
		"no mxfp4 scales": {module(t, object{"group_size": 32, "bits": 4, "mode": "mxfp4", "p": true}, four), checkpoint.ErrMissing, "p.scales"},
		"nvfp4 scales":    {module(t, nvfp4, four, tensor("p.scales", "U8", 8, 1)), checkpoint.ErrMismatch, "U8 [8 4]"},
	} {
		_, err := c.c.Module("p", 8, 64)
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, c.names, name)
	}
}

// The shapes say how a module is packed that config.json does not name.
func TestModuleInferred(t *testing.T) {
	for _, c := range []struct {
		words, groups int
		scales        string
		want          checkpoint.Packing
	}{
		{16, 2, "BF16", checkpoint.Packing{GroupSize: 64, Bits: 4}},
		{32, 4, "BF16", checkpoint.Packing{GroupSize: 32, Bits: 8}},
		{20, 1, "F32", checkpoint.Packing{GroupSize: 128, Bits: 5}},
		{16, 8, "U8", checkpoint.Packing{GroupSize: 16, Bits: 4, Mode: "nvfp4"}},
		{16, 4, "U8", checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"}},
		{32, 4, "U8", checkpoint.Packing{GroupSize: 32, Bits: 8, Mode: "mxfp8"}},
		{28, 2, "BF16", checkpoint.Packing{}}, // 7 bits
		{16, 8, "BF16", checkpoint.Packing{}}, // affine groups of 16
		{16, 2, "U8", checkpoint.Packing{}},
		{15, 2, "BF16", checkpoint.Packing{}},
		{16, 3, "BF16", checkpoint.Packing{}},
	} {
		list := []checkpoint.Tensor{
			{Name: "p.weight", Stored: "U32", Shape: []int{8, c.words}}, {Name: "p.scales", Stored: c.scales, Shape: []int{8, c.groups}},
		}
		if c.scales != "U8" {
			list = append(list, checkpoint.Tensor{Name: "p.biases", Stored: c.scales, Shape: []int{8, c.groups}})
		}
		m, err := module(t, object{"group_size": 32, "bits": 2}, list...).Module("p", 8, 128)
		if c.want == (checkpoint.Packing{}) {
			require.ErrorIs(t, err, checkpoint.ErrMismatch, c)
			require.ErrorContains(t, err, "asks for U32 [8 8] (2 bits, 128 columns)")
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, c.want, m.Packing)
	}
}
