// Package model runs Qwen3 language models on the typed ops of this module.
//
// [Load] puts the weights of a checkpoint on a device and returns a [Model]:
//
//	m, err := model.Load(device, weights, model.Options{})
//	cache, err := m.NewCache(1024)
//	logits := m.Forward(stream, model.Pass{Tokens: tokens, Cache: cache})
//
// Forward only enqueues: it waits for nothing, and what goes wrong comes back
// when the logits are read. Where the tokens stand in the sequence is known to
// the host, or kept in device memory ([Pass].State), so that the same recorded
// work serves every position.
package model

import (
	"errors"
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/ops"
)

// Model is a language model on a device, whatever the type of its activations.
// It is safe for concurrent use on several streams with a cache each.
type Model interface {
	// Config returns the checkpoint's configuration.
	Config() *checkpoint.Config
	// Device returns where the model lives.
	Device() *kompute.Device
	// DType returns the type of the activations.
	DType() kompute.DType
	// Bytes returns the device memory of the weights.
	Bytes() int64
	// NewCache returns an empty cache for at least capacity tokens. It fails
	// with an error that wraps ErrCache or the device's reason.
	NewCache(capacity int) (Cache, error)
	// Forward enqueues a pass on s and returns its logits, which belong to the
	// innermost open scope of s. A pass that cannot be made poisons s.
	Forward(s *kompute.Stream, p Pass) *kompute.Tensor[float32]
	// Close frees the weights once the device is done with them. The checkpoint
	// may be closed after that.
	Close() error
}

// Rows says of which tokens of a pass the logits are wanted.
type Rows int

const (
	LastRow Rows = iota // of the last token: [1, 1, V]
	AllRows             // of every token: [1, T, V]
	NoRows              // of none, only the cache is filled: Forward gives nil
)

// Pass is one run of a model over T new tokens of a sequence.
type Pass struct {
	Tokens *kompute.Tensor[uint32] // [1, T], T >= 1, each below the vocabulary's size
	// Cache holds the tokens before these, and gets these.
	Cache Cache
	// State holds the position on the device ([NewState]); Cache.Len does not
	// change then (see [Cache].Extend), and nothing checks the capacity. Nil: the
	// tokens go to the end of Cache.
	State *kompute.Tensor[int32]
	Rows  Rows
}

// Options says how to load a model.
type Options struct {
	// DType is the type of activations and key-value cache; 0 takes float32 for
	// a quantized checkpoint and the weights' own type for a dense one.
	DType kompute.DType
	// Capacity is how many tokens the cache will hold, for the check whether all
	// of it fits the device.
	Capacity int
	// Progress, if not nil, is told the bytes loaded so far and of how many.
	Progress func(done, total int64)
}

// Load puts the weights on the device. Before it touches the device it checks
// every tensor against the configuration, with the errors of package
// checkpoint, and the memory, with [FitError]. The checkpoint must stay open
// until the model is closed.
func Load(d *kompute.Device, c *checkpoint.Checkpoint, o Options) (Model, error) {
	dtype := o.DType
	if dtype == 0 {
		dtype = defaultDType(c)
	}
	switch dtype {
	case array.Float32:
		return load[float32](d, c, o)
	case array.Float16:
		return load[kompute.Float16](d, c, o)
	case array.BFloat16:
		return load[kompute.BFloat16](d, c, o)
	}
	return nil, fmt.Errorf("%w: activations of type %v", kompute.ErrDType, dtype)
}

// defaultDType returns float32 for a quantized checkpoint, and else the type in
// which the embedding is stored.
func defaultDType(c *checkpoint.Checkpoint) kompute.DType {
	if t, err := c.Tensor("model.embed_tokens.weight"); err == nil && c.Config.Quantization == nil && t.DType.IsFloat() {
		return t.DType
	}
	return array.Float32
}

func load[T kompute.Float](d *kompute.Device, c *checkpoint.Checkpoint, o Options) (Model, error) {
	plan := loader[T]{weights: c, device: d}
	if plan.qwen3(); plan.err != nil {
		return nil, plan.err
	}
	if err := plan.checkFit(o.Capacity); err != nil {
		return nil, err
	}
	s, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	l := loader[T]{weights: c, device: d, stream: s}
	if o.Progress != nil {
		l.progress = func(bytes int64) { o.Progress(bytes, plan.bytes) }
	}
	m := &loaded[T]{net: l.qwen3(), config: c.Config, device: d, bytes: l.bytes, owned: l.owned}
	if err := errors.Join(l.err, l.finish()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loaded is a [Model] with activations of type T.
type loaded[T kompute.Float] struct {
	net    *Qwen3[T]
	config *checkpoint.Config
	device *kompute.Device
	bytes  int64
	owned  []io.Closer
}

func (m *loaded[T]) Config() *checkpoint.Config { return m.config }
func (m *loaded[T]) Device() *kompute.Device    { return m.device }
func (m *loaded[T]) DType() kompute.DType       { return array.DTypeOf[T]() }
func (m *loaded[T]) Bytes() int64               { return m.bytes }

func (m *loaded[T]) NewCache(capacity int) (Cache, error) {
	c := m.config
	return newKVCache[T](m.device, c.Layers, c.KVHeads, c.HeadDim, capacity, c.MaxPositions)
}

func (m *loaded[T]) Forward(s *kompute.Stream, p Pass) *kompute.Tensor[float32] {
	cache, at, err := m.place(p)
	if err != nil {
		return kompute.Failed[float32](s, err)
	}
	defer at.close()
	sc := s.Scope()
	defer sc.Close()
	x := m.net.Hidden(s, p.Tokens, cache, &at)
	n := p.Tokens.Dim(1)
	if p.State == nil {
		cache.len = at.first + n
	}
	switch p.Rows {
	case NoRows:
		return nil
	case LastRow:
		x = x.Slice(1, n-1, n)
	}
	return kompute.Keep(sc, toFloat32(s, m.net.Logits(s, x)))
}

// place checks a pass and finds where its tokens go.
func (m *loaded[T]) place(p Pass) (*KVCache[T], place, error) {
	cache, ok := p.Cache.(*KVCache[T])
	switch {
	case p.Tokens == nil || p.Tokens.Err() != nil || p.Tokens.Rank() != 2 || p.Tokens.Dim(0) != 1 || p.Tokens.Dim(1) < 1:
		return nil, place{}, fmt.Errorf("%w: a pass takes tokens [1, T] with T >= 1", kompute.ErrShape)
	case !ok || len(cache.layers) != len(m.net.Blocks) || cache.device != m.device:
		return nil, place{}, fmt.Errorf("%w: made by another model", ErrCache)
	case cache.closed:
		return nil, place{}, fmt.Errorf("%w: closed", ErrCache)
	case p.State == nil && cache.len+p.Tokens.Dim(1) > cache.capacity:
		return nil, place{}, fmt.Errorf("%w: full: %d tokens after %d, capacity %d", ErrCache, p.Tokens.Dim(1), cache.len, cache.capacity)
	}
	if p.State != nil {
		return cache, atState(p.State), nil
	}
	return cache, place{first: cache.len}, nil
}

// toFloat32 widens logits, without work where they are float32 already.
func toFloat32[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[float32] {
	if same, ok := any(x).(*kompute.Tensor[float32]); ok {
		return same
	}
	return ops.Cast[float32](s, x)
}

func (m *loaded[T]) Close() error {
	var errs []error
	for _, c := range m.owned {
		errs = append(errs, c.Close())
	}
	m.owned = nil
	return errors.Join(errs...)
}
