package model

import (
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// ErrCache says that a cache is full, closed or of another model.
var ErrCache = errors.New("invalid key-value cache")

// cacheStep is the multiple that capacities are rounded up to, in tokens.
const cacheStep = 256

// Cache holds the keys and values of the tokens that a model has seen, so that
// a pass computes those of new tokens only. One sequence, one stream.
type Cache interface {
	// Len returns the number of tokens in the cache.
	Len() int
	// Capacity returns how many tokens fit.
	Capacity() int
	// Truncate forgets the tokens from position n on; 0 <= n <= Len, or an
	// error that wraps ErrCache.
	Truncate(n int) error
	// Extend counts n more tokens, which passes with a State have put there;
	// n >= 0 and they fit, or an error that wraps ErrCache.
	Extend(n int) error
	// Reserve makes room for n tokens in all. It copies what is there on s.
	Reserve(s *kompute.Stream, n int) error
	// Close frees the memory once the device is done with it.
	Close() error
}

// KVCache is the [Cache] of a model whose activations are of type T.
type KVCache[T kompute.Float] struct {
	device        *kompute.Device
	layers        []layerCache[T]
	kvHeads, dim  int
	len, capacity int
	limit         int // the most tokens the model can take
	closed        bool
}

// layerCache holds keys and values of one layer, each [1, Hkv, capacity, D].
type layerCache[T kompute.Float] struct {
	keys, values *kompute.Tensor[T]
}

// roundCapacity returns the capacity used for n tokens where at most limit fit.
func roundCapacity(n, limit int) int {
	return min((n+cacheStep-1)/cacheStep*cacheStep, limit)
}

func newKVCache[T kompute.Float](d *kompute.Device, layers, kvHeads, dim, capacity, limit int) (*KVCache[T], error) {
	c := &KVCache[T]{device: d, kvHeads: kvHeads, dim: dim, limit: limit}
	var err error
	if c.capacity, err = c.fitting(capacity); err != nil {
		return nil, err
	}
	if c.layers, err = c.allocate(layers, c.capacity); err != nil {
		return nil, err
	}
	return c, nil
}

// fitting returns the capacity to allocate for n tokens.
func (c *KVCache[T]) fitting(n int) (int, error) {
	if n < 1 || n > c.limit {
		return 0, fmt.Errorf("%w: %d tokens asked for; the model's context holds 1 to %d", ErrCache, n, c.limit)
	}
	return roundCapacity(n, c.limit), nil
}

// allocate makes the tensors of a cache. They are zeroed on the device: bytes
// that never were numbers could be NaN, which no mask takes out of a sum.
func (c *KVCache[T]) allocate(layers, capacity int) ([]layerCache[T], error) {
	s, err := c.device.NewStream()
	if err != nil {
		return nil, err
	}
	out := make([]layerCache[T], layers)
	err = c.zeroed(s, out, capacity)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("key-value cache of %d tokens: %w", capacity, err), closeLayers(out))
	}
	return out, nil
}

func (c *KVCache[T]) zeroed(s *kompute.Stream, layers []layerCache[T], capacity int) error {
	zero, err := kompute.Zeros[T](c.device, 1, 1, 1, 1)
	if err != nil {
		return err
	}
	zeros := zero.Broadcast(1, c.kvHeads, capacity, c.dim)
	defer closeAll(zeros, zero)
	for i := range layers {
		for _, t := range []**kompute.Tensor[T]{&layers[i].keys, &layers[i].values} {
			if *t, err = kompute.Empty[T](c.device, 1, c.kvHeads, capacity, c.dim); err != nil {
				return err
			}
			ops.SliceUpdate(s, *t, zeros)
		}
	}
	return nil
}

// Len implements [Cache].
func (c *KVCache[T]) Len() int { return c.len }

// Capacity implements [Cache].
func (c *KVCache[T]) Capacity() int { return c.capacity }

// Truncate implements [Cache].
func (c *KVCache[T]) Truncate(n int) error {
	if n < 0 || n > c.len {
		return fmt.Errorf("%w: cannot truncate %d tokens to %d", ErrCache, c.len, n)
	}
	c.len = n
	return nil
}

// Extend implements [Cache].
func (c *KVCache[T]) Extend(n int) error {
	if n < 0 || n > c.capacity-c.len {
		return fmt.Errorf("%w: cannot add %d tokens to %d, capacity %d", ErrCache, n, c.len, c.capacity)
	}
	c.len += n
	return nil
}

// Reserve implements [Cache].
func (c *KVCache[T]) Reserve(s *kompute.Stream, n int) error {
	if c.closed {
		return fmt.Errorf("%w: closed", ErrCache)
	}
	if n <= c.capacity {
		return nil
	}
	capacity, err := c.fitting(max(n, min(2*c.capacity, c.limit)))
	if err != nil {
		return err
	}
	grown, err := c.allocate(len(c.layers), capacity)
	if err != nil {
		return err
	}
	if c.len > 0 {
		for i := range grown {
			moveTokens(s, grown[i].keys, c.layers[i].keys, c.len)
			moveTokens(s, grown[i].values, c.layers[i].values, c.len)
		}
	}
	if err := errors.Join(s.Err(), closeLayers(c.layers)); err != nil {
		return errors.Join(err, closeLayers(grown))
	}
	c.layers, c.capacity = grown, capacity
	return nil
}

// moveTokens copies the first n tokens of one cache tensor to another.
func moveTokens[T kompute.Float](s *kompute.Stream, to, from *kompute.Tensor[T], n int) {
	used := from.Slice(2, 0, n)
	defer closeAll(used)
	ops.SliceUpdate(s, to, used)
}

// Close implements [Cache]. Later calls do nothing.
func (c *KVCache[T]) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return closeLayers(c.layers)
}

func closeLayers[T kompute.Float](layers []layerCache[T]) error {
	var errs []error
	for _, l := range layers {
		for _, t := range []*kompute.Tensor[T]{l.keys, l.values} {
			if t != nil {
				errs = append(errs, t.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// attend adds new keys and values [1, Hkv, T, D] to the cache and returns the
// attention of the queries q [1, Hq, T, D] over all keys so far, [1, Hq, T, D].
// Where the device knows the place, attention sees the whole cache, and a length.
func (l *layerCache[T]) attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], at *place, scale float32) *kompute.Tensor[T] {
	ops.SliceUpdate(s, l.keys, k, at.cacheStart()...)
	ops.SliceUpdate(s, l.values, v, at.cacheStart()...)
	p := ops.SDPAParams[T]{Scale: scale, Causal: true, KeyLength: at.keys}
	if at.onDevice {
		return ops.SDPA(s, q, l.keys, l.values, p)
	}
	end := at.first + k.Dim(2)
	keys, values := l.keys.Slice(2, 0, end), l.values.Slice(2, 0, end)
	defer closeAll(keys, values)
	return ops.SDPA(s, q, keys, values, p)
}
