package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Piece is the place of a fixed number of rows, of which as many are tokens as the host
// says before each pass. So a pass over a piece of a prompt, recorded once, serves every
// position and every number of tokens up to that of the rows:
//
//	region, err := stream.Capture(func(s *kompute.Stream) {
//		… a pass over the piece, for Rows tokens …
//	})
//	piece.Set(position, tokens)
//
// The tokens are the last rows. So the last row is always the last token, and causal
// attention, whose queries end at the last key, needs to know nothing but how many keys
// there are, also where the tokens end at the end of the cache. The rows before the
// tokens are not used: their keys and values are written nowhere, and nobody reads their
// results.
//
// A piece belongs to one stream at a time.
type Piece struct {
	rows int
	// What the device reads: positions, slots, lengths and sequences of the rows, as in
	// [Rows], and the number of keys after the pass.
	numbers *kompute.Mapped[int32] // [4*rows + 1]
	host    []int32
	paged   bool // see Place
}

// NewPiece returns a piece of that many rows, none of which is used.
func NewPiece(d *kompute.Device, rows int) (*Piece, error) {
	if rows < 1 {
		return nil, fmt.Errorf("%w: a piece of %d rows", kompute.ErrInvalid, rows)
	}
	p := &Piece{rows: rows, host: make([]int32, 4*rows+1), paged: rows >= jointRows && sharesLoads(d)}
	var err error
	if p.numbers, err = kompute.NewMapped[int32](d, len(p.host)); err != nil {
		return nil, err
	}
	if err = p.Set(0, 0); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// sharesLoads reports whether rows of one sequence share loads of its pages on d.
func sharesLoads(d *kompute.Device) bool {
	return slices.ContainsFunc(d.Kernels(), func(v kompute.KernelVariant) bool {
		return v.Kernel == "paged_sdpa_coopmat2" && v.State == kompute.KernelUsable
	})
}

// Rows returns the number of rows; 0 for a nil piece.
func (p *Piece) Rows() int {
	if p == nil {
		return 0
	}
	return p.rows
}

// Set says that the last rows of the next pass are that many tokens, from position first
// on. What a pass that is not done yet sees is undefined. It fails with
// kompute.ErrInvalid if there are fewer rows or first is negative, and with
// kompute.ErrClosed.
func (p *Piece) Set(first, tokens int) error {
	if p.Rows() == 0 || first < 0 || first > math.MaxInt32-p.rows || tokens < 0 || tokens > p.rows {
		return fmt.Errorf("%w: %d tokens from position %d on in a piece of %d rows", kompute.ErrInvalid, tokens, first, p.Rows())
	}
	n := p.rows
	positions, slots, lengths := p.host[:n], p.host[n:2*n], p.host[2*n:3*n]
	unused := n - tokens
	for i := range n {
		positions[i], slots[i], lengths[i] = 0, -1, 0
		if i >= unused {
			at := int32(first + i - unused)
			positions[i], slots[i], lengths[i] = at, at, at+1
		}
	}
	p.host[4*n] = int32(first + tokens)
	return p.numbers.Poke(p.host, 0)
}

// Place enqueues the start of a pass and returns its place, which belongs to the
// innermost open scope of s. It copies the numbers, because mapped memory is slow for
// the device.
func (p *Piece) Place(s *kompute.Stream) Place {
	n := p.Rows()
	if n == 0 {
		p = &Piece{} // ops on its missing tensor fail
	}
	numbers := ops.Copy(s, p.numbers.Tensor())
	part := func(first, n int) *kompute.Tensor[int32] { return numbers.Slice(0, first, first+n) }
	rows := &Rows{Positions: part(0, n), Slots: part(n, n), Lengths: part(2*n, n), Sequences: part(3*n, n)}
	rows.Table = part(3*n, 1).Reshape(1, 1) // page 0
	return Place{keys: part(4*n, 1), piece: rows, paged: p.paged}
}

// Close frees the piece once the device is done with it. Closing a nil piece, or one
// twice, does nothing.
func (p *Piece) Close() error {
	if p == nil {
		return nil
	}
	return p.numbers.Close()
}

// placedPiece is a cache, and the piece whose tokens go there.
type placedPiece[T kompute.Float, C ops.PageElement] struct {
	cache *KVCache[C]
	at    *Place
}

// Layer implements [Layers].
func (p *placedPiece[T, C]) Layer(i int) KV[T] {
	return &pieceLayer[T, C]{&p.cache.layers[i], p.at}
}

// pieceLayer is a layer of a cache, and the rows of a piece whose tokens go there. To
// the updates, it is the only page.
type pieceLayer[T kompute.Float, C ops.PageElement] struct {
	*LayerCache[C]
	at *Place
}

// Rotate implements [KV]: [1, R, n, D] to [R, n, D].
func (l *pieceLayer[T, C]) Rotate(s *kompute.Stream, r *RoPE[T], heads *kompute.Tensor[T]) *kompute.Tensor[T] {
	return rotateRows(s, r, heads, l.at.piece)
}

// mostPagedHead is how many elements a head has at most that the attention to pages takes
// on tensor cores.
const mostPagedHead = 128

// mostPagedRows is the number of rows of heads up to which attention to pages is faster
// than ops.SDPA. That has one workgroup for 64 of them, too few for a large GPU then;
// attention to pages divides the keys of such a tile among several.
const mostPagedRows = 8192

// Attend implements [KV]. Queries before the first token see some of the earlier keys,
// or none.
func (l *pieceLayer[T, C]) Attend(s *kompute.Stream, q, k, v *kompute.Tensor[T], scale float32) *kompute.Tensor[T] {
	rows, n, d := q.Dim(0), q.Dim(1), q.Dim(2)
	codes := !array.DTypeOf[C]().IsFloat()
	if codes || l.at.paged && rows*n <= mostPagedRows && d <= mostPagedHead {
		return (&pagedLayer[T, C]{l.LayerCache, l.at.piece}).Attend(s, q, k, v, scale)
	}
	updateRows(s, l.LayerCache, k, v, l.at.piece)
	p := ops.SDPAParams[T]{Scale: scale, Causal: true, KeyLength: l.at.keys}
	return join(s, sdpaOver(s, byHead(q.Reshape(1, rows, n, d)), l.LayerCache, p))
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
