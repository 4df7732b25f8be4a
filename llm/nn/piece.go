package nn

import (
	"fmt"
	"math"

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
}

// NewPiece returns a piece of that many rows, none of which is used.
func NewPiece(d *kompute.Device, rows int) (*Piece, error) {
	if rows < 1 {
		return nil, fmt.Errorf("%w: a piece of %d rows", kompute.ErrInvalid, rows)
	}
	p := &Piece{rows: rows, host: make([]int32, 4*rows+1)}
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
	return Place{keys: part(4*n, 1), piece: rows}
}

// Close frees the piece once the device is done with it. Closing a nil piece, or one
// twice, does nothing.
func (p *Piece) Close() error {
	if p == nil {
		return nil
	}
	return p.numbers.Close()
}
