package nn

import "github.com/kompute-go/kompute-go/kompute"

// Attention is causal self-attention over all tokens so far, whose keys and
// values are kept in a cache. Queries are grouped (Ainslie et al., 2023): query
// head h reads key-value head h / (Heads/KVHeads).
type Attention[T kompute.Float] struct {
	Q, K, V, Out   Linear[T]
	QKV            Linear[T]   // Q, K and V at once, one after the other; nil: they have no matrix in common
	QNorm, KNorm   *RMSNorm[T] // over the D elements of each head, before RoPE; nil: none
	Heads, KVHeads int         // Hq, Hkv
	RoPE           RoPE[T]
	Scale          float32 // of the scores, usually 1/sqrt(D)
}

// KV is the state of one layer that attention needs in one pass: the positions of the
// pass's tokens, and the keys and values of earlier tokens. A [KVCache] has those of
// one sequence, and [Pages] those of many.
type KV[T kompute.Float] interface {
	// Rotate rotates heads [1, T, n, D] by the positions of their tokens. The result
	// has the shape that Attend takes.
	Rotate(s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T]) *kompute.Tensor[T]
	// Attend adds the tokens' keys k and values v to the earlier ones, and returns
	// the attention of each token over its own sequence up to itself, [1, T, Hq*D]. q
	// and k are Rotate's results, v is [1, T, Hkv, D]; scale multiplies the scores.
	Attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], scale float32) *kompute.Tensor[T]
}

// Layers gives the [KV] of every layer of a model in one pass.
type Layers[T kompute.Float] interface {
	// Layer returns that of layer i, counted from 0.
	Layer(i int) KV[T]
}

// Forward maps [1, T, H] to [1, T, H], and adds T keys and values to kv.
func (a *Attention[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], kv KV[T]) *kompute.Tensor[T] {
	q, k, v := a.project(s, x)
	q = kv.Rotate(s, &a.RoPE, a.QNorm.Forward(s, q))
	k = kv.Rotate(s, &a.RoPE, a.KNorm.Forward(s, k))

	return a.Out.Forward(s, kv.Attend(s, q, k, v, a.Scale))
}

// jointRows is the number of rows from which a product by a matrix that several projections
// have in common is faster. For fewer rows, fused kernels read several matrices.
const jointRows = 65

// project returns the heads of queries, keys and values.
func (a *Attention[T]) project(s *kompute.Stream, x *kompute.Tensor[T]) (q, k, v *kompute.Tensor[T]) {
	if a.QKV == nil || x.Dim(1) < jointRows {
		// The three products of x follow one another, so that a backend can compute them together.
		return split(a.Q.Forward(s, x), a.Heads), split(a.K.Forward(s, x), a.KVHeads), split(a.V.Forward(s, x), a.KVHeads)
	}
	heads := split(a.QKV.Forward(s, x), a.Heads+2*a.KVHeads)
	return heads.Slice(2, 0, a.Heads), heads.Slice(2, a.Heads, a.Heads+a.KVHeads), heads.Slice(2, a.Heads+a.KVHeads, heads.Dim(2))
}

// split cuts the last axis into heads: [1, T, n*D] to [1, T, n, D].
func split[T kompute.Float](x *kompute.Tensor[T], heads int) *kompute.Tensor[T] {
	return x.Reshape(1, x.Dim(1), heads, -1)
}
