package model

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Qwen3 is the decoder-only transformer of the Qwen3 Technical Report (2025):
// pre-norm blocks of grouped-query attention, with a norm over each head of the
// queries and keys, and a gated MLP. T is the type of activations.
//
// Shapes below: T new tokens, hidden width H, Hq query and Hkv key-value heads
// of D elements. There is one sequence, so the batch axis is always 1.
type Qwen3[T kompute.Float] struct {
	Embedding Embedding[T]
	Blocks    []Block[T]
	Norm      RMSNorm[T]
	Head      Linear[T] // the embedding transposed, where they are tied
}

// Hidden returns the states after the last block, before the final norm:
// tokens [1, T] to [1, T, H].
func (m *Qwen3[T]) Hidden(s *kompute.Stream, tokens *kompute.Tensor[uint32], cache *KVCache[T], at *place) *kompute.Tensor[T] {
	x := m.Embedding.Forward(s, tokens)
	for i := range m.Blocks {
		x = m.Blocks[i].Forward(s, x, &cache.layers[i], at)
	}
	return x
}

// Logits returns a score for each token of the vocabulary V: [1, T, H] to [1, T, V].
func (m *Qwen3[T]) Logits(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T] {
	return m.Head.Forward(s, m.Norm.Forward(s, hidden))
}

// Block is one layer: x + Attention(norm(x)), then x + MLP(norm(x)).
type Block[T kompute.Float] struct {
	AttentionNorm RMSNorm[T]
	Attention     Attention[T]
	MLPNorm       RMSNorm[T]
	MLP           MLP[T]
}

// Forward maps [1, T, H] to [1, T, H].
func (b *Block[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv *layerCache[T], at *place) *kompute.Tensor[T] {
	x = ops.Add(s, x, b.Attention.Forward(s, b.AttentionNorm.Forward(s, x), kv, at))
	return ops.Add(s, x, b.MLP.Forward(s, b.MLPNorm.Forward(s, x)))
}

// Attention is causal grouped-query attention: query head h reads key-value
// head h / (Hq/Hkv).
type Attention[T kompute.Float] struct {
	Q, K, V, Out  Linear[T]
	QNorm, KNorm  RMSNorm[T] // over the D elements of each head
	Heads, Groups int        // Hq, Hkv
	RoPE          ops.RoPEParams
	Scale         float32 // 1/sqrt(D)
}

// Forward maps [1, T, H] to [1, T, H], and adds T keys and values to kv.
func (a *Attention[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv *layerCache[T], at *place) *kompute.Tensor[T] {
	q := a.rotate(s, a.QNorm.Forward(s, heads(a.Q.Forward(s, x), a.Heads)), at)
	k := a.rotate(s, a.KNorm.Forward(s, heads(a.K.Forward(s, x), a.Groups)), at)
	v := byHead(heads(a.V.Forward(s, x), a.Groups))

	return a.Out.Forward(s, join(s, kv.attend(s, q, k, v, at, a.Scale)))
}

// rotate applies rotary position embedding: [1, T, heads, D] to [1, heads, T, D].
func (a *Attention[T]) rotate(s *kompute.Stream, x *kompute.Tensor[T], at *place) *kompute.Tensor[T] {
	return ops.RoPE(s, byHead(x), a.RoPE, at.ropeOffset())
}

// heads splits the last axis: [1, T, n*D] to [1, T, n, D].
func heads[T kompute.Float](x *kompute.Tensor[T], n int) *kompute.Tensor[T] {
	return x.Reshape(1, x.Dim(1), n, -1)
}

// byHead swaps the axes of tokens and heads.
func byHead[T kompute.Float](x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return x.Transpose(0, 2, 1, 3)
}

// join puts the heads of a token side by side: [1, n, T, D] to [1, T, n*D].
// For one token this moves nothing.
func join[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	tokens := x.Dim(2)
	if x = byHead(x); tokens > 1 {
		x = ops.Copy(s, x)
	}
	return x.Reshape(1, tokens, -1)
}

// MLP is the gated feed-forward network down(SiLU(gate(x)) * up(x)).
type MLP[T kompute.Float] struct {
	Gate, Up, Down Linear[T]
}

// Forward maps [1, T, H] to [1, T, H].
func (m *MLP[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return m.Down.Forward(s, ops.SiLUMul(s, m.Gate.Forward(s, x), m.Up.Forward(s, x)))
}

// RMSNorm is x / sqrt(mean(x^2) + eps) * weight, over the last axis.
type RMSNorm[T kompute.Float] struct {
	Weight *kompute.Tensor[T]
	Eps    float32
}

// Forward keeps the shape of x.
func (n *RMSNorm[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.RMSNorm(s, x, n.Weight, n.Eps)
}
