package nn

import (
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Decoder is a decoder-only transformer of pre-norm blocks.
type Decoder[T kompute.Float] struct {
	Embedding Embedding[T]
	Blocks    []Block[T]
	Norm      *RMSNorm[T]
	Head      Linear[T] // the embedding, where they are tied; nil: there are only states
}

// Block is one layer of a [Decoder].
type Block[T kompute.Float] struct {
	AttentionNorm *RMSNorm[T]
	Attention     Attention[T]
	MLPNorm       *RMSNorm[T]
	MLP           GatedMLP[T]
}

// Hidden returns the states after the last block, before the final norm: tokens [1, T] to
// [1, T, H]. It adds the keys and values of T tokens to those of the layers.
func (d *Decoder[T]) Hidden(s *kompute.Stream, tokens *kompute.Tensor[uint32], layers Layers[T]) *kompute.Tensor[T] {
	x := d.Embedding.Forward(s, tokens)
	for i := range d.Blocks {
		next := d.Blocks[i].Forward(s, x, layers.Layer(i))
		_ = x.Close() // its memory is free for the layers to come
		x = next
	}
	return x
}

// States returns the states after the final norm: [1, T, H] to [1, T, H].
func (d *Decoder[T]) States(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T] {
	return d.Norm.Forward(s, hidden)
}

// Logits returns a score for each token of the vocabulary, from states before the final
// norm: [1, T, H] to [1, T, V]. Without a head it poisons s with kompute.ErrInvalid.
func (d *Decoder[T]) Logits(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T] {
	if d.Head == nil {
		return kompute.Failed[T](s, fmt.Errorf("%w: logits of a decoder without a head", kompute.ErrInvalid))
	}
	return d.Head.Forward(s, d.States(s, hidden))
}

// Forward is x + Attention(norm(x)), then x + MLP(norm(x)): [1, T, H] to [1, T, H].
// Everything else that it makes is freed, so that a pass does not hold it for all layers.
func (b *Block[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv KV[T]) *kompute.Tensor[T] {
	sc := s.Scope()
	defer sc.Close()
	x = ops.Add(s, x, b.Attention.Forward(s, b.AttentionNorm.Forward(s, x), kv))
	return kompute.Keep(sc, ops.Add(s, x, b.MLP.Forward(s, b.MLPNorm.Forward(s, x))))
}
