package generate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// pieceSize tells pieces of prompts apart that need regions of their own: by their
// number of rows, and how the token that follows is chosen.
type pieceSize struct {
	rows    int
	sampled bool
	applied *penalties // nil: none
}

// piece is a pass over some tokens of a prompt, with the choice of the token that
// follows them, and what it keeps on the device. Everything that differs from prompt to
// prompt is device data.
type piece struct {
	tokens int             // of the last use
	uses   int             // of this size
	last   int             // the number of the last use, among those of all sizes
	region *kompute.Region // nil until it is captured
	failed bool            // capturing it failed, and is not tried again

	capacity int                     // of the state that it was captured with
	place    *nn.Piece               // where its tokens go
	inputs   *kompute.Mapped[uint32] // the rows' tokens, then the sampling parameters
	chosen   *kompute.Tensor[uint32] // [1, 1]
	done     kompute.Event           // after the last replay
}

const (
	fewestRows = 16  // a pass over fewer rows takes about as long on a GPU
	finerFrom  = 256 // from here on, a pass over half as many again takes clearly longer
	wholeFrom  = 512 // of longer pieces, at most an eighth of the rows are unused: they take as long as others
	mostPieces = 12  // that are captured at once
)

// pieceRows returns how many rows a piece of n tokens has, at most as many as there are
// in a whole piece. A GPU takes about as long for few rows as for some more, so few sizes
// serve all prompts: powers of two, and those in the middle where they are far apart. For
// a CPU, each row is work.
func pieceRows(d *kompute.Device, n, most int) int {
	if d.Backend() == "cpu" {
		return n
	}
	rows := fewestRows
	for rows < n {
		rows *= 2
	}
	if between := rows / 4 * 3; rows > finerFrom && n <= between {
		rows = between
	}
	return min(rows, most)
}

// nextPiece returns how many of n tokens are fed next: all of them if they nearly fill a
// piece, otherwise as many as fill one, so that few rows of long pieces are unused. A
// prompt is divided alike whether its pieces are captured yet or not.
func (g *generation) nextPiece(n int) int {
	d, most := g.model.Device(), g.options.PrefillStep
	if n >= most {
		return most
	}
	rows := pieceRows(d, n, most)
	if g.options.Eager || rows <= wholeFrom || rows-n <= rows/8 {
		return n
	}
	filled := wholeFrom
	for filled*2 <= n {
		filled *= 2
	}
	if between := filled / 2 * 3; between <= n {
		filled = between
	}
	return filled
}

// pieceFor returns the captured piece for n tokens; nil if they are to be enqueued op by
// op.
func (g *generation) pieceFor(n int) (*piece, error) {
	g.lastPiece = nil
	if g.options.Eager {
		return nil, nil
	}
	p, size := g.pieceOf(n)
	err := g.captureUsed(p, size)
	g.pieceUses++
	p.uses, p.last, p.tokens = p.uses+1, g.pieceUses, n
	if err != nil || p.region == nil {
		return nil, err
	}
	g.lastPiece = p
	return p, nil
}

// pieceAhead captures the piece for n tokens, which comes next, if it will be captured
// anyway: the device is busy with the one before.
func (g *generation) pieceAhead(n int) error {
	if g.options.Eager {
		return nil
	}
	return errors.Join(g.stream.Flush(), g.captureUsed(g.pieceOf(n)))
}

// pieceOf returns the piece for n tokens, captured or not.
func (g *generation) pieceOf(n int) (*piece, pieceSize) {
	size := pieceSize{pieceRows(g.model.Device(), n, g.options.PrefillStep), !g.options.Sampling.Greedy(), g.applied}
	if g.pieces == nil {
		g.pieces = map[pieceSize]*piece{}
	}
	p := g.pieces[size]
	if p == nil {
		p = &piece{}
		g.pieces[size] = p
	}
	return p, size
}

// captureUsed captures a piece if it has been used before: most programs that answer one
// question would never replay it. A region of a state that has grown since is replaced.
func (g *generation) captureUsed(p *piece, size pieceSize) error {
	if p.region != nil && p.capacity != g.state.Capacity() {
		if err := p.close(); err != nil {
			return err
		}
	}
	if p.region != nil || p.uses == 0 || p.failed {
		return nil
	}
	return errors.Join(g.makeRoom(), g.capturePiece(p, size))
}

// makeRoom closes the captured piece that was not used for longest, if there are too
// many.
func (s *Session) makeRoom() error {
	captured := 0
	var oldest *piece
	for _, p := range s.pieces {
		if p.region == nil {
			continue
		}
		captured++
		if oldest == nil || p.last < oldest.last {
			oldest = p
		}
	}
	if captured < mostPieces {
		return nil
	}
	oldest.uses = 0 // so that more sizes than fit are not captured again and again
	return oldest.close()
}

// capturePiece captures a piece. A device that cannot, or has no memory for it, computes
// such pieces op by op as before.
func (g *generation) capturePiece(p *piece, size pieceSize) error {
	d := g.model.Device()
	var closed error
	err := g.makingRoom(func() error {
		p.capacity = g.state.Capacity()
		err := p.allocate(d, size)
		if err == nil {
			p.region, err = g.stream.Capture(func(st *kompute.Stream) { p.record(st, g.model, g.state, size) })
		}
		if err != nil {
			closed = errors.Join(closed, p.close())
		}
		return err
	})
	if err == nil {
		return closed
	}
	lacks := errors.Is(err, kompute.ErrCapture) && errors.Is(err, kompute.ErrUnsupported)
	if !lacks && !errors.Is(err, kompute.ErrOutOfMemory) {
		return errors.Join(err, closed)
	}
	p.failed = true
	d.Logger().Warn("prompts are computed op by op: they cannot be captured",
		slog.Int("rows", size.rows), slog.String("reason", err.Error()), slog.String("device", d.Info().Name))
	return closed
}

// makingRoom calls capture, and if there is no memory for it, once more without what was
// captured before, if there is anything.
func (s *Session) makingRoom(capture func() error) error {
	err := capture()
	if !errors.Is(err, kompute.ErrOutOfMemory) {
		return err
	}
	found := s.step != nil && s.step.region != nil
	for _, p := range s.pieces {
		found = found || p.region != nil
	}
	if !found {
		return err
	}
	if closed := errors.Join(s.closePieces(), s.step.release()); closed != nil { // which share memory
		return errors.Join(err, closed)
	}
	for _, p := range s.pieces {
		p.uses = 0 // or they would come back at once
	}
	return capture()
}

// allocate makes the piece's tensors.
func (p *piece) allocate(d *kompute.Device, size pieceSize) error {
	var errs [3]error
	p.place, errs[0] = nn.NewPiece(d, size.rows)
	p.inputs, errs[1] = kompute.NewMapped[uint32](d, size.rows+ops.SampleParamsSize)
	p.chosen, errs[2] = kompute.Zeros[uint32](d, 1, 1)
	return errors.Join(errs[:]...)
}

// record enqueues the pass and the choice of the token that follows it. Pieces before the
// last one choose a token, too, which nobody reads: that takes little of their time, and
// saves a region of each size.
func (p *piece) record(st *kompute.Stream, m model.Model, state model.DecodeState, size pieceSize) {
	inputs := ops.Copy(st, p.inputs.Tensor()) // mapped memory is slow for the device
	tokens := inputs.Slice(0, 0, size.rows).Reshape(1, size.rows)
	logits := m.Forward(st, model.Pass{Tokens: tokens, State: state, Piece: p.place})
	var params *kompute.Tensor[uint32]
	if size.sampled {
		params = inputs.Slice(0, size.rows, size.rows+ops.SampleParamsSize)
	}
	ops.SliceUpdate(st, p.chosen, choose(st, logits, size.applied, params, ops.At(0)))
}

// run replays the piece for these tokens, which go to the end of the state.
func (p *piece) run(ctx context.Context, g *generation, ids []int) error {
	// What it reads must not change before its last replay is done, which a generation that
	// was cancelled has not waited for.
	if !p.done.Done() {
		if err := p.done.Wait(ctx); err != nil {
			return err
		}
	}
	rows := p.place.Rows()
	inputs := make([]uint32, rows, rows+ops.SampleParamsSize)
	for i, id := range ids {
		inputs[rows-len(ids)+i] = uint32(id)
	}
	if !g.options.Sampling.Greedy() {
		inputs = append(inputs, g.options.Sampling.Encode(uint64(g.first))...)
	}
	if err := errors.Join(p.place.Set(g.state.Len(), len(ids)), p.inputs.Poke(inputs, 0), g.state.Extend(len(ids))); err != nil {
		return err
	}
	err := p.region.Replay(ctx)
	g.stream.RecordInto(&p.done)
	return err
}

// close frees the piece, which may be captured again, once the device is done with it.
func (p *piece) close() error {
	var errs []error
	if p.region != nil {
		errs = append(errs, p.region.Close())
	}
	errs = append(errs, p.place.Close(), p.inputs.Close())
	if p.chosen != nil {
		errs = append(errs, p.chosen.Close())
	}
	*p = piece{uses: p.uses, last: p.last, failed: p.failed}
	return errors.Join(errs...)
}

// closePieces frees all pieces. Their uses still count.
func (s *Session) closePieces() error {
	var errs []error
	for _, p := range s.pieces {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// reserve makes room for n tokens in all. If the state has to grow, what was captured
// with it cannot be used any more, and its memory may be needed.
func (s *Session) reserve(n int) error {
	var closed error
	if n > s.state.Capacity() {
		closed = errors.Join(s.closeStep(), s.closePieces())
	}
	return errors.Join(closed, s.state.Reserve(s.stream, n))
}
