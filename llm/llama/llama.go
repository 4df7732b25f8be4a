// Package llama is the decoder-only transformer of Llama 3 (Grattafiori et al.,
// 2024): pre-norm blocks of grouped-query attention and a gated MLP, with rotary
// frequencies that are scaled for contexts longer than those of the pretraining.
package llama

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
		Type: "llama", Class: "LlamaForCausalLM", ReadConfig: ReadConfig,
		Float32: New[float32], Float16: New[kompute.Float16], BFloat16: New[kompute.BFloat16],
	})
}

// Config is the configuration of a Llama model, from config.json.
type Config struct {
	model.Transformer
	MLPBias bool     // gate, up and down projections have a bias
	Scaling *Scaling // nil: RoPE is not scaled
}

// ReadConfig reads config.json. It fails with the errors of package checkpoint.
func ReadConfig(raw *checkpoint.Config) (Config, error) {
	f := raw.Fields()
	c := Config{Transformer: model.ReadTransformer(f), MLPBias: f.Flag("mlp_bias")}
	switch kind, scaling := model.RopeScaling(f); kind {
	case "default":
	case "llama3":
		c.Scaling = readScaling(scaling)
	default:
		f.Unsupported("RoPE scaling", kind, "default", "llama3")
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

// New builds the network from the names that Llama checkpoints use.
func New[T kompute.Float](l *model.Loader[T], c Config) model.Network[T] {
	m := &Model[T]{
		Embedding: l.Embedding("model.embed_tokens", c.VocabSize, c.HiddenSize),
		Blocks:    make([]Block[T], c.Layers),
	}
	rope := rope(l, c)
	for i := range m.Blocks {
		path := fmt.Sprintf("model.layers.%d.", i)
		m.Blocks[i] = Block[T]{
			AttentionNorm: l.RMSNorm(path+"input_layernorm", c.HiddenSize, c.RMSNormEps),
			Attention:     attention(l, c, path+"self_attn.", rope),
			MLPNorm:       l.RMSNorm(path+"post_attention_layernorm", c.HiddenSize, c.RMSNormEps),
			MLP:           mlp(l, c, path+"mlp."),
		}
	}
	m.Norm = l.RMSNorm("model.norm", c.HiddenSize, c.RMSNormEps)
	if m.Head = m.Embedding.Tied(); !c.TieWordEmbeddings {
		m.Head = l.Linear("lm_head", c.VocabSize, c.HiddenSize)
	}
	return m
}

func attention[T kompute.Float](l *model.Loader[T], c Config, path string, rope nn.RoPE[T]) nn.Attention[T] {
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
		Heads:   c.Heads,
		KVHeads: c.KVHeads,
		RoPE:    rope,
		Scale:   float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
	a.QKV = l.Joint(a.Q, a.K, a.V)
	return a
}

func mlp[T kompute.Float](l *model.Loader[T], c Config, path string) nn.GatedMLP[T] {
	linear := l.Linear
	if c.MLPBias {
		linear = l.BiasedLinear
	}
	m := nn.GatedMLP[T]{
		Gate: linear(path+"gate_proj", c.IntermediateSize, c.HiddenSize),
		Up:   linear(path+"up_proj", c.IntermediateSize, c.HiddenSize),
		Down: linear(path+"down_proj", c.HiddenSize, c.IntermediateSize),
	}
	m.GateUp = l.Joint(m.Gate, m.Up)
	return m
}
