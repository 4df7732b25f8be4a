package nn

import (
	"errors"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Place is where the new tokens of a pass go. The host knows it, or it is in device
// memory, so that the same work, recorded once, serves every position.
type Place struct {
	first int // position of the first new token, from the host
	// These are on the device, or all nil:
	rope  *kompute.Tensor[int32] // [1], the first position for RoPE
	start *kompute.Tensor[int32] // [4], where the cache is updated
	keys  *kompute.Tensor[int32] // [1], the number of keys after that
	zero  *kompute.Tensor[int32] // [1]
	table *kompute.Tensor[int32] // [1, 1], a page table whose only page is number 0
	// piece is where each row of a [Piece] stands, or nil. Its keys are those above.
	piece *Rows
}

// At returns the place from position first on, counted from 0, which the host
// knows.
func At(first int) Place { return Place{first: first} }

func (p *Place) onDevice() bool { return p.start != nil }

// position is the first position for RoPE.
func (p *Place) position() ops.Position {
	if p.onDevice() {
		return ops.AtDevice(p.rope)
	}
	return ops.At(p.first)
}

// cacheStart is where new keys and values go in a cache [1, Hkv, capacity, D].
func (p *Place) cacheStart() []ops.Position {
	if p.onDevice() {
		return []ops.Position{ops.AtDevice(p.start)}
	}
	return []ops.Position{ops.At(0), ops.At(0), ops.At(p.first), ops.At(0)}
}

// rows describes n tokens of a sequence that has one page, number 0.
func (p *Place) rows(s *kompute.Stream, n int) *Rows {
	if p.piece != nil {
		return p.piece
	}
	if p.onDevice() {
		return &Rows{Positions: p.rope, Lengths: p.keys, Slots: p.rope, Sequences: p.zero, Table: p.table}
	}
	count := func(from int) *kompute.Tensor[int32] {
		return ops.Arange[int32](s, float64(from), float64(from+n), 1)
	}
	positions, zeros := count(p.first), ops.Fill[int32](s, 0, n)
	return &Rows{
		Positions: positions, Lengths: count(p.first + 1), Slots: positions,
		Sequences: zeros, Table: zeros.Slice(0, 0, 1).Reshape(1, 1),
	}
}

// Close closes the place's views; the cursor that it came from stays open.
func (p *Place) Close() {
	if p.onDevice() {
		closeAll(p.rope, p.start, p.keys, p.zero, p.table)
	}
}

// Cursor is a place that the device keeps and advances by itself, one token at a
// time, so that a recorded step can be replayed without the host:
//
//	region, err := stream.Capture(func(s *kompute.Stream) {
//		cursor.Load(s)
//		… a pass at cursor.Place(), for one token …
//		cursor.Advance(s)
//	})
//	cursor.Set(stream, position)
//
// A cursor belongs to one stream at a time.
type Cursor struct {
	// The start of the cache update, whose axis 2 is the position, and the number
	// of keys afterwards. There are two copies, so that the copies at both ends of a
	// step add no dependencies and run in parallel with other work; with one they
	// would run alone.
	now, next *kompute.Tensor[int32]
	step      *kompute.Tensor[int32] // the increment for one token
}

const cursorSize = 5

func cursorAt(position int) []int32 { return []int32{0, 0, int32(position), 0, int32(position + 1)} }

// NewCursor returns a cursor at position 0.
func NewCursor(d *kompute.Device) (*Cursor, error) {
	c := &Cursor{}
	var errs [3]error
	c.now, errs[0] = kompute.New(d, cursorAt(0), cursorSize)
	c.next, errs[1] = kompute.New(d, cursorAt(0), cursorSize)
	c.step, errs[2] = kompute.New(d, []int32{0, 0, 1, 0, 1}, cursorSize)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// orEmpty replaces a nil cursor by one without tensors, with which ops fail.
func (c *Cursor) orEmpty() *Cursor {
	if c == nil {
		return &Cursor{}
	}
	return c
}

// Set enqueues setting the position of the next step, counted from 0.
func (c *Cursor) Set(s *kompute.Stream, position int) {
	sc := s.Scope()
	defer sc.Close()
	ops.SliceUpdate(s, c.orEmpty().next, kompute.Constant(s, cursorAt(position), cursorSize))
}

// Load enqueues the start of a step: from then on the cursor's place is the one from
// Set or the last Advance.
func (c *Cursor) Load(s *kompute.Stream) {
	c = c.orEmpty()
	ops.SliceUpdate(s, c.now, c.next)
}

// Place returns the place of the step, for one token.
func (c *Cursor) Place() Place {
	c = c.orEmpty()
	zero := c.now.Slice(0, 0, 1)
	return Place{start: c.now.Slice(0, 0, 4), rope: c.now.Slice(0, 2, 3), keys: c.now.Slice(0, 4, 5), zero: zero, table: zero.Reshape(1, 1)}
}

// Position returns a view of the step's position, int32 [1].
func (c *Cursor) Position() *kompute.Tensor[int32] { return c.orEmpty().now.Slice(0, 2, 3) }

// Advance enqueues moving the next step one token further.
func (c *Cursor) Advance(s *kompute.Stream) {
	sc := s.Scope()
	defer sc.Close()
	c = c.orEmpty()
	ops.SliceUpdate(s, c.next, ops.Add(s, c.now, c.step))
}

// Close frees the cursor once the device is done with it. Closing a nil cursor,
// or one twice, does nothing.
func (c *Cursor) Close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, t := range []**kompute.Tensor[int32]{&c.now, &c.next, &c.step} {
		if *t != nil {
			errs = append(errs, (*t).Close())
		}
	}
	return errors.Join(errs...)
}

// closeAll closes views whose storage stays open.
func closeAll[E kompute.Element](views ...*kompute.Tensor[E]) {
	for _, v := range views {
		_ = v.Close() // closing a view cannot fail
	}
}
