package model

import (
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/ops"
)

// qwen3 builds the model from the names that Qwen3 checkpoints use.
func (l *loader[T]) qwen3() *Qwen3[T] {
	c := l.weights.Config
	m := &Qwen3[T]{
		Embedding: l.embedding("model.embed_tokens", c.VocabSize, c.HiddenSize),
		Blocks:    make([]Block[T], c.Layers),
	}
	for i := range m.Blocks {
		m.Blocks[i] = l.block(fmt.Sprintf("model.layers.%d.", i))
	}
	m.Norm = l.norm("model.norm", c.HiddenSize)
	if c.TieWordEmbeddings {
		if l.err == nil {
			m.Head = m.Embedding.Transposed()
		}
	} else {
		m.Head = l.linear("lm_head", c.VocabSize, c.HiddenSize, false)
	}
	return m
}

func (l *loader[T]) block(path string) Block[T] {
	c := l.weights.Config
	return Block[T]{
		AttentionNorm: l.norm(path+"input_layernorm", c.HiddenSize),
		Attention:     l.attention(path + "self_attn."),
		MLPNorm:       l.norm(path+"post_attention_layernorm", c.HiddenSize),
		MLP: MLP[T]{
			Gate: l.linear(path+"mlp.gate_proj", c.IntermediateSize, c.HiddenSize, false),
			Up:   l.linear(path+"mlp.up_proj", c.IntermediateSize, c.HiddenSize, false),
			Down: l.linear(path+"mlp.down_proj", c.HiddenSize, c.IntermediateSize, false),
		},
	}
}

func (l *loader[T]) attention(path string) Attention[T] {
	c := l.weights.Config
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return Attention[T]{
		Q:      l.linear(path+"q_proj", queries, c.HiddenSize, c.AttentionBias),
		K:      l.linear(path+"k_proj", keys, c.HiddenSize, c.AttentionBias),
		V:      l.linear(path+"v_proj", keys, c.HiddenSize, c.AttentionBias),
		Out:    l.linear(path+"o_proj", c.HiddenSize, queries, c.AttentionBias),
		QNorm:  l.norm(path+"q_norm", c.HeadDim),
		KNorm:  l.norm(path+"k_norm", c.HeadDim),
		Heads:  c.Heads,
		Groups: c.KVHeads,
		RoPE:   ops.RoPEParams{Dims: c.HeadDim, Base: float32(c.RopeTheta), Scale: 1},
		Scale:  float32(1 / math.Sqrt(float64(c.HeadDim))),
	}
}
