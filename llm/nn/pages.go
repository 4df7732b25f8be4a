package nn

import (
	"errors"
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Pages is a pool of pages for the keys and values of many sequences (Kwon et
// al., 2023): a page holds PageTokens tokens of one sequence, in every layer, and
// a table lists the pages of each sequence. The caller decides which page belongs to
// which sequence. One stream at a time may write to it.
type Pages[T ops.PageElement] struct {
	device  *kompute.Device
	shape   CacheShape
	layers  []LayerCache[T]
	count   int
	tokens  int
	created bool
}

// PageBytes returns the memory of one page of that many tokens, with elements of a
// type.
func (c CacheShape) PageBytes(tokens int, dtype kompute.DType) int64 {
	return 2 * int64(c.Layers) * int64(c.KVHeads) * int64(tokens) * c.headBytes(dtype)
}

// NewPages returns a pool of count pages of that many tokens each. It fails with an
// error that wraps [ErrCache] or the device's reason.
func NewPages[T ops.PageElement](d *kompute.Device, shape CacheShape, count, tokens int) (*Pages[T], error) {
	if count < 1 || tokens < 1 || int64(count)*int64(tokens) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d pages of %d tokens", ErrCache, count, tokens)
	}
	if err := shape.check(array.DTypeOf[T]()); err != nil {
		return nil, err
	}
	p := &Pages[T]{device: d, shape: shape, count: count, tokens: tokens, created: true}
	s, err := d.NewStream()
	if err != nil {
		return nil, err
	}
	p.layers, err = zeroedLayers[T](s, d, shape.Layers, count, shape.KVHeads, tokens, ops.PageRow(array.DTypeOf[T](), shape.HeadDim))
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("%d pages of %d tokens: %w", count, tokens, err), closeLayers(p.layers))
	}
	return p, nil
}

// Count returns the number of pages.
func (p *Pages[T]) Count() int { return p.orEmpty().count }

// PageTokens returns how many tokens a page holds.
func (p *Pages[T]) PageTokens() int { return p.orEmpty().tokens }

// Device returns the device of the pages.
func (p *Pages[T]) Device() *kompute.Device { return p.orEmpty().device }

// Shape returns the shape that the pages were made with.
func (p *Pages[T]) Shape() CacheShape { return p.orEmpty().shape }

// orEmpty replaces a nil pool by one without pages.
func (p *Pages[T]) orEmpty() *Pages[T] {
	if p == nil {
		return &Pages[T]{}
	}
	return p
}

// Open reports whether the pool is neither nil nor closed.
func (p *Pages[T]) Open() bool { return p != nil && p.created }

// Close frees the memory once the device is done with it. Closing a nil pool, or
// one twice, does nothing.
func (p *Pages[T]) Close() error {
	if !p.Open() {
		return nil
	}
	p.created = false
	return closeLayers(p.layers)
}

// Rows gives the positions of R tokens of any number of sequences. All of it is read
// on the device, so the same work, recorded once, serves any such tokens.
type Rows struct {
	// Positions [R] are positions in the tokens' sequences, counted from 0.
	Positions *kompute.Tensor[int32]
	// Lengths [R] are how many tokens each one sees: its position plus one, or 0 for
	// a row that is not used.
	Lengths *kompute.Tensor[int32]
	// Slots [R] are where their keys and values go: the page's number times
	// PageTokens, plus the place in the page; negative for a row that is not used.
	Slots *kompute.Tensor[int32]
	// Sequences [R] are the rows of Table that they belong to.
	Sequences *kompute.Tensor[int32]
	// Table [S, M] lists the pages of each of S sequences.
	Table *kompute.Tensor[int32]
	// Apart promises that each of the tokens is of another sequence, as in
	// [ops.PagedSDPAParams].
	Apart bool
}

// PlacePages returns the pool's layers for a pass over these tokens, with
// activations of type T. Keys and values are rounded to the pool's type.
func PlacePages[T kompute.Float, C ops.PageElement](p *Pages[C], rows *Rows) Layers[T] {
	return &placedPages[T, C]{p.orEmpty().layers, rows}
}

type placedPages[T kompute.Float, C ops.PageElement] struct {
	layers []LayerCache[C]
	rows   *Rows
}

// Layer implements [Layers].
func (p *placedPages[T, C]) Layer(i int) KV[T] {
	return &pagedLayer[T, C]{&p.layers[i], p.rows}
}

type pagedLayer[T kompute.Float, C ops.PageElement] struct {
	*LayerCache[C]
	rows *Rows
}

// Rotate implements [KV]: [1, R, n, D] to [R, n, D].
func (l *pagedLayer[T, C]) Rotate(s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T]) *kompute.Tensor[T] {
	return rotateRows(s, r, heads, l.rows)
}

// Attend implements [KV].
func (l *pagedLayer[T, C]) Attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], scale float32) *kompute.Tensor[T] {
	updateRows(s, l.LayerCache, k, v, l.rows)
	out := ops.PagedSDPA(s, q, l.keys, l.values, ops.PagedSDPAParams{
		Table: l.rows.Table, Sequences: l.rows.Sequences, Lengths: l.rows.Lengths, Scale: scale, Apart: l.rows.Apart,
	})
	return out.Reshape(1, v.Dim(1), -1)
}

// rotateRows rotates heads [1, R, n, D], each by its row's position, to [R, n, D].
func rotateRows[T kompute.Float](s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T], at *Rows) *kompute.Tensor[T] {
	rows, n, d := heads.Dim(1), heads.Dim(2), heads.Dim(3)
	turned := r.Forward(s, heads.Reshape(rows, n, 1, d), ops.AtDevice(at.Positions))
	return turned.Reshape(rows, n, d)
}

// updateRows adds the keys k [R, Hkv, D] and values v [1, R, Hkv, D] of rows to a layer.
func updateRows[T kompute.Float, C ops.PageElement](s *kompute.Stream, l *LayerCache[C], k, v *kompute.Tensor[T], at *Rows) {
	ops.PagedUpdate(s, l.keys, k, at.Slots)
	ops.PagedUpdate(s, l.values, v.Reshape(v.Dim(1), v.Dim(2), v.Dim(3)), at.Slots)
}
