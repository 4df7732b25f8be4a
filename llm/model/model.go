// Package model loads language models of any registered architecture, and runs
// them.
//
// [Load] puts the weights of a checkpoint on a device and returns a [Model]:
//
//	m, err := model.Load(ctx, device, weights, model.Options{})
//	state, err := m.NewState(1024)
//	logits := m.Forward(stream, model.Pass{Tokens: tokens, State: state})
//
// Forward only enqueues: it waits for nothing, and reading the logits returns any
// error. The tokens' position in the sequence is known to the host, or kept in device
// memory ([Pass].At), so that the same recorded work serves every position.
//
// An architecture is a package of its own, which reads its configuration and
// builds its [Network] from the parts in package nn; [Register] makes it known.
// The architectures of this module are registered by package generate, or by
// importing them.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/fault"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// Model is a language model on a device, of any architecture and with any type of
// activations. It is safe for concurrent use on several streams with a state each.
type Model interface {
	// Limits returns the model's vocabulary size and context length.
	Limits() Limits
	// Device returns the model's device.
	Device() *kompute.Device
	// DType returns the type of the activations.
	DType() kompute.DType
	// Bytes returns the device memory of the weights.
	Bytes() int64
	// Head returns nil if the model computes logits. Otherwise it returns a
	// checkpoint.MissingError that names the missing tensor: such a model computes only
	// states, for embeddings.
	Head() error
	// NewState returns the state of an empty sequence, with room for at least
	// capacity tokens. It fails with an error that wraps nn.ErrCache or the device's
	// reason.
	NewState(capacity int) (DecodeState, error)
	// Forward enqueues a pass on s and returns its logits, which belong to the
	// innermost open scope of s. A pass that cannot be made, or one for logits that the model
	// does not compute (Head), poisons s and adds nothing to the state.
	Forward(s *kompute.Stream, p Pass) *kompute.Tensor[float32]
	// NewPool returns a pool of pages, each of that many tokens, for many sequences, with
	// elements of a floating-point type or, for 8 bits, uint8 ([Options].CacheType);
	// 0 is that of the model's options. It fails with kompute.ErrDType, an error that
	// wraps nn.ErrCache or the device's reason.
	NewPool(pages, tokens int, dtype kompute.DType) (Pool, error)
	// PageBytes returns the memory of a page of that many tokens, with elements of a type
	// as of NewPool.
	PageBytes(tokens int, dtype kompute.DType) int64
	// ForwardRows enqueues a pass over tokens of many sequences on s and returns
	// logits [K, V], which belong to the innermost open scope of s. The result of a
	// row does not depend on what the other rows are. A pass that cannot be made
	// poisons s. Logits that the model does not compute (Head) are NaN, from which no
	// token can be chosen: other sequences may need the states of the same pass.
	ForwardRows(s *kompute.Stream, p RowsPass) *kompute.Tensor[float32]
	// Close frees the weights once the device is done with them; later calls do
	// nothing. The checkpoint may be closed after that, and after the streams on which
	// the model ran have been closed or synchronized: devices may read its memory.
	Close() error
}

// DecodeState holds what a model keeps of the tokens of one sequence, on one
// stream: a key-value cache, for transformers. Errors wrap nn.ErrCache or the
// device's reason.
type DecodeState interface {
	// Len returns the number of tokens that are remembered.
	Len() int
	// Capacity returns the number of tokens that there is room for. Once it has changed,
	// work that was recorded with the state must not be used any more.
	Capacity() int
	// Truncate forgets the tokens from position n on; 0 <= n <= Len.
	Truncate(n int) error
	// Extend counts n more tokens, which passes at a cursor or over a piece have added;
	// n >= 0, and they must fit.
	Extend(n int) error
	// Reserve makes room for n tokens in all. It copies the content on s.
	Reserve(s *kompute.Stream, n int) error
	// Close frees the memory once the device is done with it; later calls do nothing.
	Close() error
}

// Rows selects the tokens of a pass whose logits are computed.
type Rows int

const (
	LastRow Rows = iota // of the last token: [1, 1, V]
	AllRows             // of every token: [1, T, V]
	NoRows              // of none: only the state is updated, and Forward returns nil
)

// Pass is one run of a model over T new tokens of a sequence.
type Pass struct {
	Tokens *kompute.Tensor[uint32] // [1, T], T >= 1, each below the vocabulary's size
	// State holds the earlier tokens; the pass adds these.
	State DecodeState
	// At is the place of one token, kept on the device; State.Len does not change
	// then (see [DecodeState].Extend), and nothing checks the capacity. If At is nil,
	// the tokens go to the end of State.
	At *nn.Cursor
	// Piece is, instead of At, the place of T rows, of which the last ones are tokens.
	// The same holds for State.Len and the capacity.
	Piece *nn.Piece
	Rows  Rows
}

// Options are the options for loading a model.
type Options struct {
	// DType is the type of activations; 0 takes float32 for a quantized checkpoint and
	// the type of the weights for a dense one.
	DType kompute.DType
	// CacheType is the type of keys and values in states and pools: 0 is that of the
	// activations, float16 and bfloat16 take half the memory of float32, and uint8
	// about a quarter: codes of 8 bits, of which 32 share a scale (ops.PageElement).
	CacheType kompute.DType
	// Capacity is the number of tokens that a state will have room for, used to check
	// whether model and state fit the device.
	Capacity int
	// Progress, if not nil, is called with the bytes loaded so far and in all.
	Progress func(done, total int64)
}

// Load puts the weights on the device. Before it touches the device it checks
// the architecture and every tensor, with the errors of [Inspect] and of package
// checkpoint, and the memory, with [FitError]. Cancelling ctx stops it with the
// context's error, and what was loaded is freed. The checkpoint must stay open
// until the model is closed.
func Load(ctx context.Context, d *kompute.Device, c *checkpoint.Checkpoint, o Options) (Model, error) {
	var m Model
	err := fault.Guard(func() (err error) {
		m, err = loadAs(ctx, d, c, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// loadAs is Load, which may find that a file of the checkpoint has shrunk.
func loadAs(ctx context.Context, d *kompute.Device, c *checkpoint.Checkpoint, o Options) (Model, error) {
	spec, err := Inspect(c)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("%w: the device is nil", kompute.ErrInvalid)
	}
	dtype := o.DType
	if dtype == 0 {
		dtype = defaultDType(c)
	}
	build := spec.arch.builders(spec.Config)
	switch dtype {
	case array.Float32:
		return load(ctx, d, c, spec, o, build.float32)
	case array.Float16:
		return load(ctx, d, c, spec, o, build.float16)
	case array.BFloat16:
		return load(ctx, d, c, spec, o, build.bfloat16)
	}
	return nil, fmt.Errorf("%w: activations of type %v", kompute.ErrDType, dtype)
}

// defaultDType returns float32 for a quantized checkpoint, and else the type in
// which its first matrix is stored.
func defaultDType(c *checkpoint.Checkpoint) kompute.DType {
	if c.Config.Quantization != nil {
		return array.Float32
	}
	for _, name := range c.Names() {
		if t, err := c.Tensor(name); err == nil && len(t.Shape) == 2 && t.DType.IsFloat() {
			return t.DType
		}
	}
	return array.Float32
}

func load[T kompute.Float](ctx context.Context, d *kompute.Device, c *checkpoint.Checkpoint, spec Spec, o Options, build func(*Loader[T]) Network[T]) (Model, error) {
	plan := &Loader[T]{ctx: ctx, weights: c, device: d, most: d.Info().MaxTensorBytes}
	if build(plan); plan.err != nil {
		return nil, plan.err
	}
	cache := cmp.Or(o.CacheType, array.DTypeOf[T]())
	if !isCacheType(cache) {
		return nil, fmt.Errorf("%w: keys and values of type %v", kompute.ErrDType, cache)
	}
	if err := checkFit(d, c.Name(), plan.bytes, spec.Config.Cache(), o.Capacity, cache); err != nil {
		return nil, err
	}
	s, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	l := &Loader[T]{ctx: ctx, weights: c, device: d, most: plan.most, stream: s}
	l.room = room(d, plan.bytes, spec.Config.Cache(), o.Capacity, cache)
	if o.Progress != nil {
		l.progress = func(bytes int64) { o.Progress(bytes, plan.bytes) }
	}
	var network Network[T]
	shrunk := fault.Guard(func() error {
		network = build(l)
		return nil
	})
	m := &loaded[T]{network: network, config: spec.Config, device: d, cache: cache, bytes: l.bytes, headless: l.headless, owned: l.owned}
	if err := errors.Join(shrunk, l.err, l.finish()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loaded is a [Model] with activations of type T.
type loaded[T kompute.Float] struct {
	network Network[T]
	config  Config
	device  *kompute.Device
	cache   kompute.DType // of keys and values
	bytes   int64
	// headless says why there is no head; nil: there is one.
	headless error
	owned    []io.Closer
}

// NetworkOf returns the network of a model, to inspect states between its parts; nil
// if its activations are of another type than T.
func NetworkOf[T kompute.Float](m Model) Network[T] {
	if own, ok := m.(*loaded[T]); ok {
		return own.network
	}
	return nil
}

func (m *loaded[T]) Limits() Limits          { return m.config.Limits() }
func (m *loaded[T]) Device() *kompute.Device { return m.device }
func (m *loaded[T]) DType() kompute.DType    { return array.DTypeOf[T]() }
func (m *loaded[T]) Bytes() int64            { return m.bytes }
func (m *loaded[T]) Head() error             { return m.headless }

func (m *loaded[T]) Forward(s *kompute.Stream, p Pass) *kompute.Tensor[float32] {
	if err := m.check(p); err != nil {
		return kompute.Failed[float32](s, err)
	}
	n := p.Tokens.Dim(1)
	sc := s.Scope()
	defer sc.Close()
	at := nn.At(p.State.Len())
	switch {
	case p.At != nil:
		at = p.At.Place()
	case p.Piece != nil:
		at = p.Piece.Place(s)
	}
	defer at.Close()
	x := m.network.Hidden(s, p.Tokens, stateAt[T](s, p.State, &at, n))
	var logits *kompute.Tensor[float32]
	if p.Rows != NoRows {
		if p.Rows == LastRow {
			x = x.Slice(1, n-1, n)
		}
		logits = kompute.Keep(sc, toFloat32(s, m.network.Logits(s, x)))
	}
	if p.At == nil && p.Piece == nil && s.Err() == nil { // otherwise keys and values may be missing
		_ = p.State.Extend(n) // check has made sure that they fit
	}
	return logits
}

// check refuses a pass that cannot be made.
func (m *loaded[T]) check(p Pass) error {
	cache, ok := p.State.(state)
	switch {
	case p.Tokens == nil || p.Tokens.Err() != nil || p.Tokens.Rank() != 2 || p.Tokens.Dim(0) != 1 || p.Tokens.Dim(1) < 1:
		return fmt.Errorf("%w: a pass takes tokens [1, T] with T >= 1", kompute.ErrShape)
	case p.Rows < LastRow || p.Rows > NoRows:
		return fmt.Errorf("%w: unknown rows %d", kompute.ErrInvalid, p.Rows)
	case p.At != nil && p.Tokens.Dim(1) != 1:
		return fmt.Errorf("%w: a pass at a cursor takes one token, not %d", kompute.ErrShape, p.Tokens.Dim(1))
	case p.At != nil && p.Piece != nil:
		return fmt.Errorf("%w: a pass is at a cursor or over a piece, not both", kompute.ErrInvalid)
	case p.Piece != nil && p.Tokens.Dim(1) != p.Piece.Rows():
		return fmt.Errorf("%w: a pass over a piece of %d rows takes as many tokens, not %d", kompute.ErrShape, p.Piece.Rows(), p.Tokens.Dim(1))
	case !ok || cache.Device() != m.device || cache.Shape() != m.config.Cache():
		return fmt.Errorf("%w: made by another model", nn.ErrCache)
	case p.Rows != NoRows && m.headless != nil:
		return m.headless
	case p.At != nil || p.Piece != nil:
		return cache.Room(0)
	}
	return cache.Room(p.Tokens.Dim(1))
}

// toFloat32 widens logits; float32 ones are returned as they are.
func toFloat32[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[float32] {
	if same, ok := any(x).(*kompute.Tensor[float32]); ok {
		return same
	}
	return ops.Cast[float32](s, x)
}

// Close implements [Model].
func (m *loaded[T]) Close() error {
	var errs []error
	for _, c := range m.owned {
		errs = append(errs, c.Close())
	}
	m.owned = nil
	return errors.Join(errs...)
}
