package model

import (
	"cmp"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// isCacheType reports whether keys and values can have that type.
func isCacheType(dtype kompute.DType) bool { return dtype.IsFloat() || dtype == array.Uint8 }

// NewState implements [Model].
func (m *loaded[T]) NewState(capacity int) (DecodeState, error) {
	shape := m.config.Cache()
	switch m.cache {
	case array.Float16:
		return made[DecodeState](nn.NewKVCache[kompute.Float16](m.device, shape, capacity))
	case array.BFloat16:
		return made[DecodeState](nn.NewKVCache[kompute.BFloat16](m.device, shape, capacity))
	case array.Uint8:
		return made[DecodeState](nn.NewKVCache[uint8](m.device, shape, capacity))
	}
	return made[DecodeState](nn.NewKVCache[float32](m.device, shape, capacity))
}

// NewPool implements [Model].
func (m *loaded[T]) NewPool(pages, tokens int, dtype kompute.DType) (Pool, error) {
	shape := m.config.Cache()
	switch cmp.Or(dtype, m.cache) {
	case array.Float32:
		return made[Pool](nn.NewPages[float32](m.device, shape, pages, tokens))
	case array.Float16:
		return made[Pool](nn.NewPages[kompute.Float16](m.device, shape, pages, tokens))
	case array.BFloat16:
		return made[Pool](nn.NewPages[kompute.BFloat16](m.device, shape, pages, tokens))
	case array.Uint8:
		return made[Pool](nn.NewPages[uint8](m.device, shape, pages, tokens))
	}
	return nil, fmt.Errorf("%w: keys and values of type %v", kompute.ErrDType, dtype)
}

// made returns what was made as an interface, which is nil after an error.
func made[I any, P any](p P, err error) (out I, _ error) {
	if err != nil {
		return out, err
	}
	return any(p).(I), nil
}

// PageBytes implements [Model].
func (m *loaded[T]) PageBytes(tokens int, dtype kompute.DType) int64 {
	return m.config.Cache().PageBytes(tokens, cmp.Or(dtype, m.cache))
}

// state has the methods that are needed of a cache of any type.
type state interface {
	DecodeState
	Device() *kompute.Device
	Shape() nn.CacheShape
	Room(n int) error
}

// stateAt returns the layers of a state for a pass over n tokens. If keys and values have
// the activations' type, attention reads them in place, by kernels made for that. If they
// have another type, so do passes over many tokens, and passes over few read them as a page.
func stateAt[T kompute.Float](s *kompute.Stream, of DecodeState, at *nn.Place, n int) nn.Layers[T] {
	switch c := of.(type) {
	case *nn.KVCache[T]:
		return nn.PlaceCache(c, at)
	case *nn.KVCache[float32]:
		return nn.PlaceCacheAs[T](s, c, at, n)
	case *nn.KVCache[kompute.Float16]:
		return nn.PlaceCacheAs[T](s, c, at, n)
	case *nn.KVCache[kompute.BFloat16]:
		return nn.PlaceCacheAs[T](s, c, at, n)
	case *nn.KVCache[uint8]:
		return nn.PlaceCacheAs[T](s, c, at, n)
	}
	return nil
}

// pool has the methods that are needed of a pool of any type.
type pool interface {
	Open() bool
	Device() *kompute.Device
	Shape() nn.CacheShape
}

// placed returns the layers of a pool for a pass.
func placed[T kompute.Float](p Pool, at *nn.Rows) nn.Layers[T] {
	switch p := p.(type) {
	case *nn.Pages[float32]:
		return nn.PlacePages[T](p, at)
	case *nn.Pages[kompute.Float16]:
		return nn.PlacePages[T](p, at)
	case *nn.Pages[kompute.BFloat16]:
		return nn.PlacePages[T](p, at)
	case *nn.Pages[uint8]:
		return nn.PlacePages[T](p, at)
	}
	return nil
}
