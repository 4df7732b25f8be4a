// Package testmodel makes small random checkpoints for tests, and computes the
// expected results of a model with their weights.
package testmodel

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Spec is the shape and form of a checkpoint.
type Spec struct {
	Type                         string // model_type: "qwen3", "qwen2" or "llama"
	Hidden, Intermediate, Layers int
	Heads, KVHeads, HeadDim      int
	Vocab, MaxPositions          int
	Tied, AttentionBias, MLPBias bool
	Headless                     bool               // without a head, although not tied
	Bare                         bool               // names do not begin with "model."
	Traditional                  bool               // RoPE rotates neighbours
	Scaling                      model.Scaling      // of RoPE, as the reference has it
	RopeScaling                  map[string]any     // the same in config.json
	DType                        array.DType        // of all floats in the files
	Packing                      checkpoint.Packing // zero: dense
	Overrides                    map[string]*Module // by module path
	Shards                       int                // 0: one file without an index
	Seed                         uint64
	EOS                          []int
}

// Module is how one module differs; nil is dense.
type Module = checkpoint.Packing

// Small returns a quantized shape that exercises every part and is fast.
func Small() Spec {
	return Spec{
		Type: "qwen3", Hidden: 64, Intermediate: 128, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, Vocab: 96, MaxPositions: 512,
		Tied: true, DType: array.BFloat16, Packing: checkpoint.Packing{GroupSize: 32, Bits: 4}, Seed: 1,
	}
}

// headNorms reports whether queries and keys have norms.
func (s Spec) headNorms() bool { return s.Type == "qwen3" }

// Weights are the decoded weights of a checkpoint by name, row-major.
type Weights map[string][]float32

// Write writes the checkpoint's config and weights to dir and returns the
// weights as a reader of the files must see them.
func (s Spec) Write(t testing.TB, dir string) Weights {
	t.Helper()
	w := &writer{spec: s, rng: rand.New(rand.NewPCG(s.Seed, 7)), weights: Weights{}}
	w.module("model.embed_tokens", s.Vocab, s.Hidden, false)
	for i := range s.Layers {
		w.layer(fmt.Sprintf("model.layers.%d.", i))
	}
	w.norm("model.norm", s.Hidden)
	if !s.Tied && !s.Headless {
		w.module("lm_head", s.Vocab, s.Hidden, false)
	}
	s.writeConfig(t, dir)
	s.writeTensors(t, dir, w.tensors)
	return w.weights
}

type writer struct {
	spec    Spec
	rng     *rand.Rand
	tensors []checkpoint.Tensor
	weights Weights
}

func (w *writer) layer(path string) {
	s := w.spec
	w.norm(path+"input_layernorm", s.Hidden)
	w.norm(path+"post_attention_layernorm", s.Hidden)
	if s.headNorms() {
		w.norm(path+"self_attn.q_norm", s.HeadDim)
		w.norm(path+"self_attn.k_norm", s.HeadDim)
	}
	biased := s.AttentionBias || s.Type == "qwen2"
	w.module(path+"self_attn.q_proj", s.Heads*s.HeadDim, s.Hidden, biased)
	w.module(path+"self_attn.k_proj", s.KVHeads*s.HeadDim, s.Hidden, biased)
	w.module(path+"self_attn.v_proj", s.KVHeads*s.HeadDim, s.Hidden, biased)
	w.module(path+"self_attn.o_proj", s.Hidden, s.Heads*s.HeadDim, s.AttentionBias)
	w.module(path+"mlp.gate_proj", s.Intermediate, s.Hidden, s.MLPBias)
	w.module(path+"mlp.up_proj", s.Intermediate, s.Hidden, s.MLPBias)
	w.module(path+"mlp.down_proj", s.Hidden, s.Intermediate, s.MLPBias)
}

// random returns n normal numbers of the given mean and deviation, rounded as
// the files store them.
func (w *writer) random(n int, mean, deviation float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = w.spec.DType.Round(float32(mean + deviation*w.rng.NormFloat64()))
	}
	return out
}

func (w *writer) norm(path string, n int) {
	v := w.random(n, 1, 0.2)
	w.weights[path+".weight"] = v
	w.floats(path+".weight", v, n)
}

func (w *writer) module(path string, out, in int, bias bool) {
	v := w.random(out*in, 0, 1/math.Sqrt(float64(in)))
	if bias {
		b := w.random(out, 0, 0.3)
		w.weights[path+".bias"] = b
		w.floats(path+".bias", b, out)
	}
	q := w.spec.Packing
	if o, ok := w.spec.Overrides[path]; ok {
		q = Module{}
		if o != nil {
			q = *o
		}
	}
	if q == (Module{}) {
		w.weights[path+".weight"] = v
		w.floats(path+".weight", v, out, in)
		return
	}
	if q.Mode != "" {
		w.small(path, v, out, in, q)
		return
	}
	codes, scales, biases, decoded := quantize(v, in, q, w.spec.DType)
	w.weights[path+".weight"] = decoded
	w.add(path+".weight", array.Uint32, array.Bytes(codes), out, in*q.Bits/32)
	w.floats(path+".scales", scales, out, in/q.GroupSize)
	w.floats(path+".biases", biases, out, in/q.GroupSize)
}

// floats adds a tensor of the spec's floating-point type.
func (w *writer) floats(name string, v []float32, shape ...int) {
	data := array.Bytes(v)
	if w.spec.DType != array.Float32 {
		narrow := make([]uint16, len(v))
		for i, f := range v {
			if narrow[i] = uint16(array.BF16FromFloat32(f)); w.spec.DType == array.Float16 {
				narrow[i] = uint16(array.F16FromFloat32(f))
			}
		}
		data = make([]byte, 0, 2*len(v))
		for _, n := range narrow {
			data = append(data, byte(n), byte(n>>8))
		}
	}
	w.add(name, w.spec.DType, data, shape...)
}

func (w *writer) add(name string, dtype array.DType, data []byte, shape ...int) {
	if w.spec.Bare {
		name = strings.TrimPrefix(name, "model.")
	}
	w.tensors = append(w.tensors, checkpoint.Tensor{Name: name, DType: dtype, Data: data, Shape: shape, Stored: stored[dtype]})
}

var stored = map[array.DType]string{
	array.Float32: "F32", array.Float16: "F16", array.BFloat16: "BF16", array.Uint32: "U32",
	array.Uint8: "U8",
}

func (s Spec) writeTensors(t testing.TB, dir string, tensors []checkpoint.Tensor) {
	t.Helper()
	if s.Shards == 0 {
		require.NoError(t, checkpoint.WriteFile(filepath.Join(dir, checkpoint.WeightsFile), tensors, map[string]string{"format": "mlx"}))
		return
	}
	shards, index, total := make([][]checkpoint.Tensor, s.Shards), map[string]string{}, int64(0)
	name := func(i int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, s.Shards) }
	for i, tensor := range tensors {
		shards[i%s.Shards] = append(shards[i%s.Shards], tensor)
		index[tensor.Name] = name(i % s.Shards)
		total += int64(len(tensor.Data))
	}
	for i, tensors := range shards {
		require.NoError(t, checkpoint.WriteFile(filepath.Join(dir, name(i)), tensors, nil))
	}
	f, err := os.Create(filepath.Join(dir, checkpoint.IndexFile))
	require.NoError(t, err)
	require.NoError(t, checkpoint.WriteIndex(f, index, total))
	require.NoError(t, f.Close())
}

// block is a quantization as config.json describes it.
func block(p Module) map[string]any {
	out := map[string]any{"group_size": p.GroupSize, "bits": p.Bits}
	if p.Mode != "" {
		out["mode"] = p.Mode
	}
	return out
}

func (s Spec) writeConfig(t testing.TB, dir string) {
	t.Helper()
	config := map[string]any{
		"model_type": s.Type, "mlp_bias": s.MLPBias,
		"hidden_size": s.Hidden, "intermediate_size": s.Intermediate, "num_hidden_layers": s.Layers,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim,
		"vocab_size": s.Vocab, "max_position_embeddings": s.MaxPositions, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
		"tie_word_embeddings": s.Tied, "attention_bias": s.AttentionBias, "hidden_act": "silu",
		"torch_dtype": s.DType.String(),
	}
	if s.Traditional {
		config["rope_traditional"] = true
	}
	if s.RopeScaling != nil {
		config["rope_scaling"] = s.RopeScaling
	}
	if s.EOS != nil {
		config["eos_token_id"] = s.EOS
	}
	if s.Packing != (Module{}) {
		q := block(s.Packing)
		for path, o := range s.Overrides {
			if q[path] = false; o != nil {
				q[path] = block(*o)
			}
		}
		config["quantization"] = q
	}
	data, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigFile), data, 0o600))
}
