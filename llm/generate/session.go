package generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Session generates text with one model, on a stream and a state of its own. The
// state is kept from call to call, so each token of a conversation is computed
// only once. A session serves one goroutine at a time.
type Session struct {
	host      *model.Host // nil: a lost device is not replaced
	model     model.Model
	tokenizer *tokenizer.Tokenizer
	stream    *kompute.Stream
	state     model.DecodeState
	seen      []int      // the tokens in the state
	step      *step      // nil until needed
	penalties *penalties // nil until needed
	pieces    map[pieceSize]*piece
	pieceUses int    // of all sizes
	lastPiece *piece // the latest, if it was replayed
	// the most tokens of a piece, since there was no memory for more; 0: any
	pieceLimit int
	// why the step cannot be captured on this device; nil: it can, so far
	uncaptured error
	stats      Stats
	busy       bool // a generation is running
}

// NewSession returns a session with an empty state for capacity tokens, at least 1 and
// at most the model's context, which grows when more are needed. tok decodes what is
// generated. The model must stay open until the session is closed. NewSession fails with
// kompute.ErrInvalid if m or tok is nil, and with the errors of the device.
func NewSession(m model.Model, tok *tokenizer.Tokenizer, capacity int) (*Session, error) {
	if m == nil || tok == nil {
		return nil, fmt.Errorf("%w: a session needs a model and a tokenizer", kompute.ErrInvalid)
	}
	s, err := m.Device().NewStream()
	if err != nil {
		return nil, err
	}
	state, err := m.NewState(min(max(capacity, 1), m.Limits().Context))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Session{model: m, tokenizer: tok, stream: s, state: state}, nil
}

// NewHostedSession is NewSession with the model of a host. If the device is lost
// during a generation, the host replaces it, and the generation continues: its tokens
// so far are fed to the new model. A device that is lost already is replaced at once.
func NewHostedSession(h *model.Host, tok *tokenizer.Tokenizer, capacity int) (*Session, error) {
	if h == nil {
		return nil, fmt.Errorf("%w: a session needs a host", kompute.ErrInvalid)
	}
	m := h.Model()
	s, err := NewSession(m, tok, capacity)
	if err != nil { // the device may be lost, and nobody has replaced it yet
		if m, err = h.Replace(context.Background(), m, err); err != nil {
			return nil, err
		}
		if s, err = NewSession(m, tok, capacity); err != nil {
			return nil, err
		}
	}
	s.host = h
	return s, nil
}

// move switches to another model, with an empty state for capacity tokens. The
// session's objects on the previous device, which is lost, are abandoned.
func (s *Session) move(m model.Model, capacity int) error {
	fresh, err := NewSession(m, s.tokenizer, capacity)
	if err != nil {
		return err
	}
	_ = errors.Join(s.closeParts(), s.state.Close(), s.stream.Close())
	s.model, s.stream, s.state, s.seen, s.uncaptured, s.pieces = m, fresh.stream, fresh.state, nil, nil, nil
	s.pieceLimit = 0 // it was for the memory of the other device
	return nil
}

// replaceLost moves the session to what its host has in place of a lost device, which may
// be lost as well before the session is there. It returns cause if that is not why it failed.
func (s *Session) replaceLost(ctx context.Context, lost model.Model, cause error, capacity int) error {
	if s.host == nil {
		return cause
	}
	for { // the host replaces it a limited number of times
		m, err := s.host.Replace(ctx, lost, cause)
		if err != nil {
			return err
		}
		if err = s.move(m, min(capacity, m.Limits().Context)); err == nil {
			return nil
		}
		lost, cause = m, err
	}
}

// restart gives the session a new stream and an empty state: an op that failed has
// poisoned the stream, and left the state without content. No region remains.
func (s *Session) restart(capacity int) error {
	closed := errors.Join(s.closeParts(), s.state.Close())
	_ = s.stream.Close() // its error is the one that poisoned it
	s.seen, s.pieces = nil, nil
	state, err := s.model.NewState(max(capacity, 1))
	if err != nil {
		return errors.Join(closed, err)
	}
	stream, err := s.model.Device().NewStream()
	if err != nil {
		return errors.Join(closed, err, state.Close())
	}
	s.stream, s.state = stream, state
	return closed
}

// closeParts frees everything but the state and the stream.
func (s *Session) closeParts() error {
	err := errors.Join(s.closeStep(), s.closePieces(), s.penalties.close())
	s.penalties = nil
	return err
}

// prepare makes room for that many tokens, in a session that an earlier generation or the
// loss of its device may have left unusable.
func (s *Session) prepare(ctx context.Context, tokens int) error {
	lost, m := s.model, s.host.Model() // m is nil without a host, and may be lost as well
	err := s.stream.Err()
	switch {
	case m != nil && m != s.model:
		lost, err = m, s.move(m, tokens)
	case err == nil:
		err = s.reserve(tokens)
		if errors.Is(err, kompute.ErrOutOfMemory) { // perhaps without the present state
			err = s.restart(tokens)
		}
	case !errors.Is(err, kompute.ErrDeviceLost):
		err = s.restart(tokens)
	}
	if err != nil {
		err = s.replaceLost(ctx, lost, err, tokens)
	}
	return err
}

// open reports whether the session is neither nil nor zero nor closed.
func (s *Session) open() bool { return s != nil && s.stream != nil }

var errBusy = fmt.Errorf("%w: the session is in the middle of a generation", kompute.ErrInvalid)

// check rejects a session that cannot begin a generation.
func (s *Session) check() error {
	switch {
	case !s.open():
		return fmt.Errorf("session: %w", kompute.ErrClosed)
	case s.busy:
		return errBusy
	}
	return nil
}

// Stream returns the session's stream, for its statistics; nil once it is
// closed. After an error that poisons it, the session goes on with another.
func (s *Session) Stream() *kompute.Stream {
	if s == nil {
		return nil
	}
	return s.stream
}

// Region returns the decode step that generations replay; nil if none has needed
// it yet, or if the device cannot capture it. It is closed with the session, when
// the state grows, when a generation chooses tokens in another way than the one before
// (greedily or not, with penalties or without), and when there is no memory for a prompt's region.
func (s *Session) Region() *kompute.Region {
	if s == nil || s.step == nil {
		return nil
	}
	return s.step.region
}

// PromptRegion returns the region that the latest prompt, or its last piece, replayed, its
// number of rows, and how many of these were tokens; nil if it was not replayed, as the
// first prompt of a length is not. It is closed with the session, when the state grows,
// and in favour of other sizes.
func (s *Session) PromptRegion() (region *kompute.Region, rows, tokens int) {
	if s == nil || s.lastPiece == nil || s.lastPiece.region == nil {
		return nil, 0, 0
	}
	return s.lastPiece.region, s.lastPiece.place.Rows(), s.lastPiece.tokens
}

// Uncaptured returns why the session's decode step cannot be a region on this
// device, so that the ops of every token are enqueued one by one, which is far
// slower; nil if it can, or no generation has tried. It wraps kompute.ErrCapture.
func (s *Session) Uncaptured() error {
	if s == nil {
		return nil
	}
	return s.uncaptured
}

// Close frees state and stream, once the device is done with them. Closing a nil
// session, or one twice, does nothing. It fails with kompute.ErrInvalid during a
// generation, for example in the loop over Tokens.
func (s *Session) Close() error {
	switch {
	case !s.open():
		return nil
	case s.busy:
		return errBusy
	}
	err := errors.Join(s.closeParts(), s.state.Close(), s.stream.Close())
	s.stream = nil
	return err
}

// read feeds the part of the prompt that the state does not hold yet, and
// returns the token that follows the prompt, on the device, [1, 1].
func (g *generation) read(ctx context.Context, prompt []int) (*kompute.Tensor[uint32], error) {
	ids, err := g.resume(prompt)
	if err != nil {
		return nil, err
	}
	if len(g.ids) == 0 { // otherwise a lost device was replaced, and the answer so far is fed as well
		g.meter.fed = len(ids)
	}
	if ids, err = g.prefill(ctx, ids, g.options); err != nil {
		return nil, err
	}
	next, err := g.feed(ctx, ids, true)
	if err != nil {
		return nil, g.failed(err)
	}
	g.seen = append(g.seen, ids...)
	return next, nil
}

// resume keeps the part of the state that the new prompt begins with, and
// returns the tokens still to be fed: at least the last one, whose logits are
// needed.
func (s *Session) resume(prompt []int) ([]int, error) {
	same := 0
	for same < min(len(s.seen), len(prompt)-1) && s.seen[same] == prompt[same] {
		same++
	}
	if err := s.state.Truncate(same); err != nil {
		return nil, err
	}
	s.seen = s.seen[:same]
	return prompt[same:], nil
}

// upload puts token ids on the device, as [1, n].
func (s *Session) upload(ids []int) (*kompute.Tensor[uint32], error) {
	narrow := make([]uint32, len(ids))
	for i, id := range ids {
		narrow[i] = uint32(id)
	}
	return kompute.New(s.model.Device(), narrow, 1, len(ids))
}

// prefill feeds all tokens but those of the last piece, a piece at a time, and
// returns the last piece. It waits for each piece, so that little is in flight
// and progress is real, and begins none once ctx is cancelled: the device is
// then busy with at most one piece.
func (g *generation) prefill(ctx context.Context, ids []int, o *Options) ([]int, error) {
	total := len(ids)
	for n := g.nextPiece(total); n < len(ids); n = g.nextPiece(len(ids)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		piece := ids[:n]
		_, err := g.feed(ctx, piece, false)
		if err == nil {
			err = g.pieceAhead(g.nextPiece(len(ids) - n))
		}
		if err == nil {
			err = g.stream.Synchronize(ctx)
		}
		if err != nil {
			return nil, g.failed(err)
		}
		g.seen = append(g.seen, piece...)
		ids = ids[len(piece):]
		if o.OnPrefill != nil {
			o.OnPrefill(total-len(ids), total)
		}
	}
	return ids, ctx.Err()
}

// failed makes state and seen agree again after an error, by forgetting the
// tokens of a pass that were not recorded.
func (s *Session) failed(err error) error {
	if s.state.Len() > len(s.seen) {
		err = errors.Join(err, s.state.Truncate(len(s.seen)))
	}
	return err
}
