package model

import (
	"fmt"
	"math"

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
	if m.headless != nil {
		n := p.Tokens.Dim(1)
		if p.Logits != nil {
			n = p.Logits.Dim(0)
		}
		return kompute.Keep(sc, ops.Fill(s, float32(math.NaN()), n, m.config.Limits().Vocabulary))
	}
	if p.Logits != nil {
		x = ops.Gather(s, x, p.Logits, 1)
	}
	logits := toFloat32(s, m.network.Logits(s, x))
	return kompute.Keep(sc, logits.Reshape(logits.Dim(1), logits.Dim(2)))
}
