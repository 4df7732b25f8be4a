package nn

import (
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// ErrCache says that a cache is full, closed or of another model.
var ErrCache = errors.New("invalid key-value cache")

// cacheStep is the multiple that capacities are rounded up to, in tokens.
const cacheStep = 256

// CacheShape describes the cache of keys and values that a model needs.
type CacheShape struct {
	Layers, KVHeads, HeadDim int
	// MaxTokens is the longest context, in tokens: no capacity exceeds it.
	MaxTokens int
}

// Capacity returns how many tokens a cache made for n holds: capacities are
// rounded up, to MaxTokens at most.
func (c CacheShape) Capacity(n int) int {
	n = min(n, c.MaxTokens) // before it is rounded up, which may overflow
	return min((n+cacheStep-1)/cacheStep*cacheStep, c.MaxTokens)
}

// Bytes returns the memory of a cache made for n tokens with elements of a type,
// and of each of the tensors in it.
func (c CacheShape) Bytes(n int, dtype kompute.DType) (all, tensor int64) {
	tensor = int64(c.KVHeads) * c.headBytes(dtype) * int64(c.Capacity(n))
	return 2 * int64(c.Layers) * tensor, tensor
}

// headBytes returns the memory of a head of one token.
func (c CacheShape) headBytes(dtype kompute.DType) int64 {
	return int64(ops.PageRow(dtype, c.HeadDim)) * int64(dtype.Size())
}

// check reports why keys and values cannot be of that type; nil: they can.
func (c CacheShape) check(dtype kompute.DType) error {
	if ops.PageRow(dtype, c.HeadDim) < 0 {
		return fmt.Errorf("%w: heads of %d elements, which is no multiple of 4, cannot be kept in 8 bits", ErrCache, c.HeadDim)
	}
	return nil
}

// KVCache holds the keys and values of the tokens that a model has seen, so that
// a pass computes those of new tokens only: one sequence, on one stream. The
// methods fail with errors that wrap [ErrCache] or the device's reason. Elements are
// floats, or 8-bit codes ([ops.PageElement]).
type KVCache[T ops.PageElement] struct {
	device        *kompute.Device
	shape         CacheShape
	layers        []LayerCache[T]
	len, capacity int
	closed        bool
}

// LayerCache holds keys and values of one layer, each [1, Hkv, capacity, D], or
// [pages, Hkv, tokens, D]; of codes the last axis is longer ([ops.PageElement]).
type LayerCache[T ops.PageElement] struct {
	keys, values *kompute.Tensor[T]
}

// NewKVCache returns an empty cache for at least capacity tokens.
func NewKVCache[T ops.PageElement](d *kompute.Device, shape CacheShape, capacity int) (*KVCache[T], error) {
	c := &KVCache[T]{device: d, shape: shape}
	var err error
	if c.capacity, err = c.fitting(capacity); err != nil {
		return nil, err
	}
	if err = shape.check(array.DTypeOf[T]()); err != nil {
		return nil, err
	}
	if c.layers, err = c.allocate(c.capacity); err != nil {
		return nil, err
	}
	return c, nil
}

// fitting returns the capacity to allocate for n tokens.
func (c *KVCache[T]) fitting(n int) (int, error) {
	if n < 1 || n > c.shape.MaxTokens {
		return 0, fmt.Errorf("%w: %d tokens asked for; the model's context holds 1 to %d", ErrCache, n, c.shape.MaxTokens)
	}
	return c.shape.Capacity(n), nil
}

// allocate makes the tensors of a cache.
func (c *KVCache[T]) allocate(capacity int) ([]LayerCache[T], error) {
	s, err := c.device.NewStream()
	if err != nil {
		return nil, err
	}
	out, err := zeroedLayers[T](s, c.device, c.shape.Layers, 1, c.shape.KVHeads, capacity, ops.PageRow(array.DTypeOf[T](), c.shape.HeadDim))
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("key-value cache of %d tokens: %w", capacity, err), closeLayers(out))
	}
	return out, nil
}

// zeroedLayers makes tensors of a shape for the keys and values of n layers. They
// are zeroed on the device: uninitialized memory could contain NaN, which no mask
// removes from a sum. After an error, the caller closes the tensors that were made.
func zeroedLayers[T ops.PageElement](s *kompute.Stream, d *kompute.Device, n int, shape ...int) ([]LayerCache[T], error) {
	layers := make([]LayerCache[T], n)
	zero, err := kompute.Zeros[T](d, 1, 1, 1, 1)
	if err != nil {
		return layers, err
	}
	zeros := zero.Broadcast(shape...)
	defer closeAll(zeros, zero)
	for i := range layers {
		for _, t := range []**kompute.Tensor[T]{&layers[i].keys, &layers[i].values} {
			if *t, err = kompute.Empty[T](d, shape...); err != nil {
				return layers, err
			}
			ops.SliceUpdate(s, *t, zeros)
		}
	}
	return layers, nil
}

// Device returns the cache's device.
func (c *KVCache[T]) Device() *kompute.Device {
	if c == nil {
		return nil
	}
	return c.device
}

// Shape returns the shape that the cache was made with.
func (c *KVCache[T]) Shape() CacheShape {
	if c == nil {
		return CacheShape{}
	}
	return c.shape
}

// Len returns the number of tokens in the cache.
func (c *KVCache[T]) Len() int {
	if c == nil {
		return 0
	}
	return c.len
}

// Capacity returns how many tokens fit.
func (c *KVCache[T]) Capacity() int {
	if c == nil {
		return 0
	}
	return c.capacity
}

// Room returns nil if n more tokens can be added now, or why not.
func (c *KVCache[T]) Room(n int) error {
	switch {
	case c == nil || c.closed:
		return fmt.Errorf("%w: closed", ErrCache)
	case n > c.capacity-c.len:
		return fmt.Errorf("%w: full: %d tokens after %d, capacity %d", ErrCache, n, c.len, c.capacity)
	}
	return nil
}

// Truncate forgets the tokens from position n on; 0 <= n <= Len.
func (c *KVCache[T]) Truncate(n int) error {
	if n < 0 || n > c.Len() {
		return fmt.Errorf("%w: cannot truncate %d tokens to %d", ErrCache, c.Len(), n)
	}
	if n < c.Len() {
		c.len = n
	}
	return nil
}

// Extend counts n more tokens, whose keys and values passes have added; n >= 0, and
// they must fit.
func (c *KVCache[T]) Extend(n int) error {
	if err := c.Room(0); err != nil {
		return err
	}
	if n < 0 || n > c.capacity-c.len {
		return fmt.Errorf("%w: cannot add %d tokens to %d, capacity %d", ErrCache, n, c.len, c.capacity)
	}
	c.len += n
	return nil
}

// Reserve makes room for n tokens in all. It copies the content on s. Work that was
// recorded with the cache must not be used any more once Capacity has changed.
func (c *KVCache[T]) Reserve(s *kompute.Stream, n int) error {
	if err := c.Room(0); err != nil {
		return err
	}
	if n <= c.capacity {
		return nil
	}
	capacity, err := c.fitting(max(n, min(2*c.capacity, c.shape.MaxTokens)))
	if err != nil {
		return err
	}
	grown, err := c.allocate(capacity)
	if err != nil {
		return err
	}
	if c.len > 0 {
		for i := range grown {
			moveTokens(s, grown[i].keys, c.layers[i].keys, c.len)
			moveTokens(s, grown[i].values, c.layers[i].values, c.len)
		}
	}
	if err := s.Err(); err != nil { // nothing was copied, and the cache stays as it is
		return errors.Join(err, closeLayers(grown))
	}
	old := c.layers
	c.layers, c.capacity = grown, capacity
	return closeLayers(old)
}

// moveTokens copies the first n tokens of one cache tensor to another.
func moveTokens[T ops.PageElement](s *kompute.Stream, to, from *kompute.Tensor[T], n int) {
	used := from.Slice(2, 0, n)
	defer closeAll(used)
	ops.SliceUpdate(s, to, used)
}

// Close frees the memory once the device is done with it. Closing a nil cache, or
// one twice, does nothing.
func (c *KVCache[T]) Close() error {
	if c == nil || c.closed {
		return nil
	}
	c.closed = true
	return closeLayers(c.layers)
}

func closeLayers[T ops.PageElement](layers []LayerCache[T]) error {
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
