package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// PlaceCache returns a cache's layers for a pass over tokens at that place, with
// activations of the cache's type.
func PlaceCache[T kompute.Float](c *KVCache[T], at *Place) Layers[T] {
	if at.piece != nil {
		return &placedPiece[T, T]{c, at}
	}
	return &placedCache[T]{c, at}
}

// PlaceCacheAs returns a cache's layers for a pass over n tokens at that place, with
// activations of type T, as one page that holds the whole sequence: keys and values are
// rounded to the cache's type. What the pass needs belongs to the innermost open scope
// of s.
func PlaceCacheAs[T kompute.Float, C ops.PageElement](s *kompute.Stream, c *KVCache[C], at *Place, n int) Layers[T] {
	if at.piece != nil {
		return &placedPiece[T, C]{c, at}
	}
	return &placedPages[T, C]{c.layers, at.rows(s, n)}
}

// placedCache is a cache, and where the tokens of a pass go in it.
type placedCache[T kompute.Float] struct {
	cache *KVCache[T]
	at    *Place
}

// Layer implements [Layers].
func (p *placedCache[T]) Layer(i int) KV[T] {
	return &placedLayer[T]{&p.cache.layers[i], p.at}
}

type placedLayer[T kompute.Float] struct {
	*LayerCache[T]
	at *Place
}

// Rotate implements [KV]: [1, T, n, D] to [1, n, T, D].
func (l *placedLayer[T]) Rotate(s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T]) *kompute.Tensor[T] {
	return r.Forward(s, byHead(heads), l.at.position())
}

// Attend implements [KV]. If the place is on the device, attention gets the whole
// cache and a length.
func (l *placedLayer[T]) Attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], scale float32) *kompute.Tensor[T] {
	ops.SliceUpdate(s, l.keys, k, l.at.cacheStart()...)
	ops.SliceUpdate(s, l.values, byHead(v), l.at.cacheStart()...)
	p := ops.SDPAParams[T]{Scale: scale, Causal: true, KeyLength: l.at.keys}
	if l.at.onDevice() {
		return join(s, ops.SDPA(s, q, l.keys, l.values, p))
	}
	end := l.at.first + k.Dim(2)
	keys, values := l.keys.Slice(2, 0, end), l.values.Slice(2, 0, end)
	defer closeAll(keys, values)
	return join(s, ops.SDPA(s, q, keys, values, p))
}

// byHead swaps the axes of tokens and heads.
func byHead[T kompute.Float](x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return x.Transpose(0, 2, 1, 3)
}

// join puts the heads of a token side by side: [1, n, T, D] to [1, T, n*D].
// For one token this copies nothing.
func join[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	tokens := x.Dim(2)
	if x = byHead(x); tokens > 1 {
		x = ops.Copy(s, x)
	}
	return x.Reshape(1, tokens, -1)
}
