package model

import (
	"cmp"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// Pool is the memory of the keys and values of many sequences, in pages: an
// nn.Pages.
type Pool interface {
	// Count returns the number of pages.
	Count() int
	// PageTokens returns how many tokens a page holds.
	PageTokens() int
	// Close frees the memory once the device is done with it; later calls do nothing.
	Close() error
}

// RowsPass is one run of a model over R tokens of any number of sequences.
type RowsPass struct {
	Tokens *kompute.Tensor[uint32] // [1, R], each below the vocabulary's size
	Pool   Pool                    // of this model
	At     *nn.Rows                // the tokens' positions and sequences
	// Logits [K] are the rows whose logits are computed, in this order; nil: all.
	Logits *kompute.Tensor[int32]
	// States [R, H], if not nil, gets the states of all rows after the final norm, for
	// example for embeddings.
	States *kompute.Tensor[float32]
}

// NewPool implements [Model].
func (m *loaded[T]) NewPool(pages, tokens int, dtype kompute.DType) (Pool, error) {
	var p Pool
	var err error
	switch cmp.Or(dtype, m.DType()) {
	case array.Float32:
		p, err = nn.NewPages[float32](m.device, m.config.Cache(), pages, tokens)
	case array.Float16:
		p, err = nn.NewPages[kompute.Float16](m.device, m.config.Cache(), pages, tokens)
	case array.BFloat16:
		p, err = nn.NewPages[kompute.BFloat16](m.device, m.config.Cache(), pages, tokens)
	default:
		err = fmt.Errorf("%w: keys and values of type %v", kompute.ErrDType, dtype)
	}
	if err != nil {
		return nil, err // p may hold a nil pointer
	}
	return p, nil
}

// PageBytes implements [Model].
func (m *loaded[T]) PageBytes(tokens int, dtype kompute.DType) int64 {
	return m.config.Cache().PageBytes(tokens, cmp.Or(dtype, m.DType()).Size())
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
	}
	return nil
}

// ForwardRows implements [Model].
func (m *loaded[T]) ForwardRows(s *kompute.Stream, p RowsPass) *kompute.Tensor[float32] {
	pages, ok := p.Pool.(pool)
	switch {
	case p.Tokens == nil || p.Tokens.Err() != nil || p.Tokens.Rank() != 2 || p.Tokens.Dim(0) != 1 || p.Tokens.Dim(1) < 1 || p.At == nil:
		return kompute.Failed[float32](s, fmt.Errorf("%w: a pass over rows takes tokens [1, R] with R >= 1, and their positions", kompute.ErrShape))
	case !ok || !pages.Open() || pages.Device() != m.device || pages.Shape() != m.config.Cache():
		return kompute.Failed[float32](s, fmt.Errorf("%w: the pool is closed, or made by another model", nn.ErrCache))
	}
	sc := s.Scope()
	defer sc.Close()
	x := m.network.Hidden(s, p.Tokens, placed[T](p.Pool, p.At))
	if p.States != nil {
		ops.SliceUpdate(s, p.States, toFloat32(s, m.network.States(s, x)).Reshape(p.States.Shape()...))
	}
	if p.Logits != nil {
		x = ops.Gather(s, x, p.Logits, 1)
	}
	logits := toFloat32(s, m.network.Logits(s, x))
	return kompute.Keep(sc, logits.Reshape(logits.Dim(1), logits.Dim(2)))
}
