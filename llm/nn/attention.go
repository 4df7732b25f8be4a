package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Attention is causal self-attention over all tokens so far, whose keys and
// values are kept in a cache. Queries are grouped (Ainslie et al., 2023): query
// head h reads key-value head h / (Heads/KVHeads).
type Attention[T kompute.Float] struct {
	Q, K, V, Out   Linear[T]
	QNorm, KNorm   *RMSNorm[T] // over the D elements of each head, before RoPE; nil: none
	Heads, KVHeads int         // Hq, Hkv
	RoPE           RoPE[T]
	Scale          float32 // of the scores, usually 1/sqrt(D)
}

// Forward maps [1, T, H] to [1, T, H], and adds T keys and values to kv.
func (a *Attention[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv *LayerCache[T], at *Place) *kompute.Tensor[T] {
	q := a.rotate(s, a.QNorm.Forward(s, split(a.Q.Forward(s, x), a.Heads)), at)
	k := a.rotate(s, a.KNorm.Forward(s, split(a.K.Forward(s, x), a.KVHeads)), at)
	v := byHead(split(a.V.Forward(s, x), a.KVHeads))

	return a.Out.Forward(s, join(s, kv.attend(s, q, k, v, at, a.Scale)))
}

// rotate gives heads their positions: [1, T, n, D] to [1, n, T, D].
func (a *Attention[T]) rotate(s *kompute.Stream, x *kompute.Tensor[T], at *Place) *kompute.Tensor[T] {
	return a.RoPE.Forward(s, byHead(x), at)
}

// attend adds new keys and values [1, Hkv, T, D] to the cache and returns the
// attention of the queries q [1, Hq, T, D] over all keys so far, [1, Hq, T, D].
// Where the device knows the place, attention sees the whole cache, and a length.
func (l *LayerCache[T]) attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], at *Place, scale float32) *kompute.Tensor[T] {
	ops.SliceUpdate(s, l.keys, k, at.cacheStart()...)
	ops.SliceUpdate(s, l.values, v, at.cacheStart()...)
	p := ops.SDPAParams[T]{Scale: scale, Causal: true, KeyLength: at.keys}
	if at.onDevice() {
		return ops.SDPA(s, q, l.keys, l.values, p)
	}
	end := at.first + k.Dim(2)
	keys, values := l.keys.Slice(2, 0, end), l.values.Slice(2, 0, end)
	defer closeAll(keys, values)
	return ops.SDPA(s, q, keys, values, p)
}

// split cuts the last axis into heads: [1, T, n*D] to [1, T, n, D].
func split[T kompute.Float](x *kompute.Tensor[T], heads int) *kompute.Tensor[T] {
	return x.Reshape(1, x.Dim(1), heads, -1)
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
