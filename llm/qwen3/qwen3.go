// Package qwen3 is the decoder-only transformer of the Qwen3 Technical Report
// (2025): pre-norm blocks of grouped-query attention, with a norm over each head
// of queries and keys, and a gated MLP.
package qwen3

import (
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

func init() {
	model.Register(model.Architecture[Config]{
		Type: "qwen3", Class: "Qwen3ForCausalLM", ReadConfig: ReadConfig,
		Float32: New[float32], Float16: New[kompute.Float16], BFloat16: New[kompute.BFloat16],
	})
}

// Config is the configuration of a Qwen3 model, from config.json.
type Config struct{ model.Transformer }

// ReadConfig reads config.json. It fails with the errors of package checkpoint,
// also where RoPE is scaled.
func ReadConfig(raw *checkpoint.Config) (Config, error) {
	f := raw.Fields()
	c := Config{model.ReadTransformer(f)}
	if kind, _ := model.RopeScaling(f); kind != "default" {
		f.Unsupported("RoPE scaling", kind, "default")
	}
	return c, f.Err()
}

// Model is the network with activations of type T.
type Model[T kompute.Float] struct {
	Embedding nn.Embedding[T]
	Blocks    []Block[T]
	Norm      *nn.RMSNorm[T]
	Head      nn.Linear[T] // the embedding, where they are tied
}

// Block is one layer.
type Block[T kompute.Float] struct {
	AttentionNorm *nn.RMSNorm[T]
	Attention     nn.Attention[T]
	MLPNorm       *nn.RMSNorm[T]
	MLP           nn.GatedMLP[T]
}

// Hidden implements [model.Network].
func (m *Model[T]) Hidden(s *kompute.Stream, tokens *kompute.Tensor[uint32], layers nn.Layers[T]) *kompute.Tensor[T] {
	x := m.Embedding.Forward(s, tokens)
	for i := range m.Blocks {
		next := m.Blocks[i].Forward(s, x, layers.Layer(i))
		_ = x.Close() // its memory is free for the layers to come
		x = next
	}
	return x
}

// States implements [model.Network].
func (m *Model[T]) States(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T] {
	return m.Norm.Forward(s, hidden)
}

// Logits implements [model.Network].
func (m *Model[T]) Logits(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T] {
	return m.Head.Forward(s, m.States(s, hidden))
}

// Forward is x + Attention(norm(x)), then x + MLP(norm(x)): [1, T, H] to [1, T, H].
// Everything else that it makes is freed, so that a pass does not hold it for all layers.
func (b *Block[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv nn.KV[T]) *kompute.Tensor[T] {
	sc := s.Scope()
	defer sc.Close()
	x = ops.Add(s, x, b.Attention.Forward(s, b.AttentionNorm.Forward(s, x), kv))
	return kompute.Keep(sc, ops.Add(s, x, b.MLP.Forward(s, b.MLPNorm.Forward(s, x))))
}

// New builds the network from the names that Qwen3 checkpoints use.
func New[T kompute.Float](l *model.Loader[T], c Config) model.Network[T] {
	m := &Model[T]{
		Embedding: l.Embedding("model.embed_tokens", c.VocabSize, c.HiddenSize),
		Blocks:    make([]Block[T], c.Layers),
	}
	for i := range m.Blocks {
		m.Blocks[i] = block(l, c, fmt.Sprintf("model.layers.%d.", i))
	}
	m.Norm = l.RMSNorm("model.norm", c.HiddenSize, c.RMSNormEps)
	if m.Head = m.Embedding.Tied(); !c.TieWordEmbeddings {
		m.Head = l.Linear("lm_head", c.VocabSize, c.HiddenSize)
	}
	return m
}

func block[T kompute.Float](l *model.Loader[T], c Config, path string) Block[T] {
	b := Block[T]{
		AttentionNorm: l.RMSNorm(path+"input_layernorm", c.HiddenSize, c.RMSNormEps),
		Attention:     attention(l, c, path+"self_attn."),
		MLPNorm:       l.RMSNorm(path+"post_attention_layernorm", c.HiddenSize, c.RMSNormEps),
		MLP: nn.GatedMLP[T]{
			Gate: l.Linear(path+"mlp.gate_proj", c.IntermediateSize, c.HiddenSize),
			Up:   l.Linear(path+"mlp.up_proj", c.IntermediateSize, c.HiddenSize),
			Down: l.Linear(path+"mlp.down_proj", c.HiddenSize, c.IntermediateSize),
		},
	}
	b.MLP.GateUp = l.Joint(b.MLP.Gate, b.MLP.Up)
	return b
}

func attention[T kompute.Float](l *model.Loader[T], c Config, path string) nn.Attention[T] {
	linear := l.Linear
	if c.AttentionBias {
		linear = l.BiasedLinear
	}
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := nn.Attention[T]{
		Q:       linear(path+"q_proj", queries, c.HiddenSize),
		K:       linear(path+"k_proj", keys, c.HiddenSize),
		V:       linear(path+"v_proj", keys, c.HiddenSize),
		Out:     linear(path+"o_proj", c.HiddenSize, queries),
		QNorm:   l.RMSNorm(path+"q_norm", c.HeadDim, c.RMSNormEps),
		KNorm:   l.RMSNorm(path+"k_norm", c.HeadDim, c.RMSNormEps),
		Heads:   c.Heads,
		KVHeads: c.KVHeads,
		RoPE:    nn.RoPE[T]{Dims: c.HeadDim, Base: float32(c.RopeTheta)},
		Scale:   float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
	a.QKV = l.Joint(a.Q, a.K, a.V)
	return a
}
