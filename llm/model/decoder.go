package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Decoder builds a decoder with the tensor names of Llama's checkpoints, which similar
// models share. They begin with "model.", or without it in checkpoints of the decoder
// alone. block builds the layer whose names begin with path, such as "model.layers.0.".
// Without a matrix for logits the decoder has no head, and the model computes only states
// ([Model].Head).
func (l *Loader[T]) Decoder(c Transformer, block func(path string) nn.Block[T]) *nn.Decoder[T] {
	prefix, has := "model.", l.weights.Has
	if !has(prefix+"embed_tokens.weight") && has("embed_tokens.weight") {
		prefix = ""
	}
	d := &nn.Decoder[T]{
		Embedding: l.Embedding(prefix+"embed_tokens", c.VocabSize, c.HiddenSize),
		Blocks:    make([]nn.Block[T], c.Layers),
	}
	for i := range d.Blocks {
		d.Blocks[i] = block(fmt.Sprintf("%slayers.%d.", prefix, i))
	}
	l.noMoreLayers(prefix+"layers.", c.Layers)
	d.Norm = l.RMSNorm(prefix+"norm", c.HiddenSize, c.RMSNormEps)
	const head = "lm_head.weight"
	switch {
	case c.TieWordEmbeddings || c.TieWithoutHead && !has(head):
		d.Head = d.Embedding.Tied()
	case has(head):
		d.Head = l.Linear("lm_head", c.VocabSize, c.HiddenSize)
	default:
		l.headless = &checkpoint.MissingError{
			File: l.weights.Name(), Tensor: head, Reason: "without it the model computes states, but no logits, and tie_word_embeddings is false",
		}
	}
	return d
}

// noMoreLayers fails if there are tensors of further layers, without which the model would be another one.
func (l *Loader[T]) noMoreLayers(prefix string, layers int) {
	for _, name := range l.weights.Names() {
		rest, _ := strings.CutPrefix(name, prefix)
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil && n >= layers {
			l.fail(&checkpoint.MismatchError{
				File: l.weights.Name(), Tensor: name, Got: fmt.Sprintf("of layer %d", n), Want: fmt.Sprintf("layers 0 to %d", layers-1),
			})
		}
	}
}

// Attention builds grouped-query attention without norms of queries and keys.
func (l *Loader[T]) Attention(path string, c Transformer, rope nn.RoPE[T]) nn.Attention[T] {
	linear := l.linear(c.QKVBias)
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := nn.Attention[T]{
		Q:       linear(path+"q_proj", queries, c.HiddenSize),
		K:       linear(path+"k_proj", keys, c.HiddenSize),
		V:       linear(path+"v_proj", keys, c.HiddenSize),
		Out:     l.linear(c.OutBias)(path+"o_proj", c.HiddenSize, queries),
		Heads:   c.Heads,
		KVHeads: c.KVHeads,
		RoPE:    rope,
		Scale:   c.attentionScale(),
	}
	a.QKV = l.Joint(a.Q, a.K, a.V)
	return a
}

// GatedMLP builds a gated MLP, whose projections may have biases.
func (l *Loader[T]) GatedMLP(path string, c Transformer, biased bool) nn.GatedMLP[T] {
	linear := l.linear(biased)
	m := nn.GatedMLP[T]{
		Gate: linear(path+"gate_proj", c.IntermediateSize, c.HiddenSize),
		Up:   linear(path+"up_proj", c.IntermediateSize, c.HiddenSize),
		Down: linear(path+"down_proj", c.HiddenSize, c.IntermediateSize),
	}
	m.GateUp = l.Joint(m.Gate, m.Up)
	return m
}

func (l *Loader[T]) linear(biased bool) func(path string, out, in int) nn.Linear[T] {
	if biased {
		return l.BiasedLinear
	}
	return l.Linear
}
