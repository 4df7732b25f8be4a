package nn

import (
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// PlaceCache returns a cache's layers for a pass over tokens at that place, with
// activations of the cache's type.
func PlaceCache[T kompute.Float](c *KVCache[T], at *Place) Layers[T] {
	if at.piece != nil {
		return &placedRows[T, T]{c.layers, at, at.piece}
	}
	return &placedCache[T]{c, at}
}

// PlaceCacheAs returns a cache's layers for a pass over n tokens at that place, with
// activations of type T: keys and values are rounded to the cache's type. Few tokens, and
// a cache of codes, take the whole sequence as one page. What the pass needs belongs to
// the innermost open scope of s.
func PlaceCacheAs[T kompute.Float, C ops.PageElement](s *kompute.Stream, c *KVCache[C], at *Place, n int) Layers[T] {
	return &placedRows[T, C]{c.layers, at, at.rows(s, n)}
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

// placedRows is a cache, and rows whose tokens go there. To the updates, it is the only
// page.
type placedRows[T kompute.Float, C ops.PageElement] struct {
	layers []LayerCache[C]
	at     *Place
	rows   *Rows
}

// Layer implements [Layers].
func (p *placedRows[T, C]) Layer(i int) KV[T] { return &rowsLayer[T, C]{&p.layers[i], p} }

type rowsLayer[T kompute.Float, C ops.PageElement] struct {
	*LayerCache[C]
	of *placedRows[T, C]
}

// Rotate implements [KV]: [1, R, n, D] to [R, n, D].
func (l *rowsLayer[T, C]) Rotate(s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T]) *kompute.Tensor[T] {
	return rotateRows(s, r, heads, l.of.rows)
}

// mostPagedRows is the number of rows up to which attention to pages is faster than
// ops.SDPA if the cache has another type (estimated from rates after 512 and 8,192 tokens
// on an H200).
const mostPagedRows = 15

// Attend implements [KV]. Queries of a piece before its first token see some of the
// earlier keys, or none.
func (l *rowsLayer[T, C]) Attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], scale float32) *kompute.Tensor[T] {
	rows, n, d := q.Dim(0), q.Dim(1), q.Dim(2)
	if readsPage[T, C](rows) {
		return (&pagedLayer[T, C]{l.LayerCache, l.of.rows}).Attend(s, q, k, v, scale)
	}
	updateRows(s, l.LayerCache, k, v, l.of.rows)
	at, cache := l.of.at, l.LayerCache
	if at.keys == nil { // the host knows how many there are
		end := at.first + rows
		cache = &LayerCache[C]{cache.keys.Slice(2, 0, end), cache.values.Slice(2, 0, end)}
		defer closeAll(cache.keys, cache.values)
	}
	p := ops.SDPAParams[T]{Scale: scale, Causal: true, KeyLength: at.keys}
	return join(s, sdpaOver(s, byHead(q.Reshape(1, rows, n, d)), cache, p))
}

// readsPage reports whether that many rows read the cache as a page: always if it is of
// codes, and few rows of another type than the cache's.
func readsPage[T kompute.Float, C ops.PageElement](rows int) bool {
	own, cache := array.DTypeOf[T](), array.DTypeOf[C]()
	return !cache.IsFloat() || own != cache && rows <= mostPagedRows
}

// sdpaOver is ops.SDPA over a layer of floats.
func sdpaOver[T kompute.Float, C ops.PageElement](s *kompute.Stream, q *kompute.Tensor[T], l *LayerCache[C], p ops.SDPAParams[T]) *kompute.Tensor[T] {
	switch l := any(l).(type) {
	case *LayerCache[float32]:
		return ops.SDPA(s, q, l.keys, l.values, p)
	case *LayerCache[kompute.Float16]:
		return ops.SDPA(s, q, l.keys, l.values, p)
	case *LayerCache[kompute.BFloat16]:
		return ops.SDPA(s, q, l.keys, l.values, p)
	}
	return kompute.Failed[T](s, fmt.Errorf("%w: attention to keys of type %v", kompute.ErrDType, array.DTypeOf[C]()))
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
