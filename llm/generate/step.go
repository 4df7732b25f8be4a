package generate

import (
	"errors"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// step is one decode step as a region, and what it keeps on the device: a replay
// takes the token that the one before has chosen, and moves on by itself. The
// host only reads which tokens were chosen.
type step struct {
	region   *kompute.Region
	capacity int                     // of the state that it was captured over
	params   *kompute.Tensor[uint32] // how to sample, as of [ops.Sample]; nil is greedy
	token    *kompute.Tensor[uint32] // [1, 1], to be fed next
	cursor   *nn.Cursor              // where it goes
	chosen   *kompute.Mapped[uint32] // [capacity], the token that follows each position
}

// captureStep returns the session's step for the state as it is and for greedy
// or sampled tokens, captured anew where there is none; nil if this device cannot
// have one.
func (g *generation) captureStep(greedy bool) (*step, error) {
	if g.uncaptured != nil {
		return nil, nil
	}
	if c := g.captured; c != nil {
		if c.capacity == g.state.Capacity() && (c.params == nil) == greedy {
			return c, nil
		}
		if err := g.closeStep(); err != nil {
			return nil, err
		}
	}
	c := &step{capacity: g.state.Capacity()}
	g.captured = c
	err := c.allocate(g.model.Device(), greedy)
	if err == nil {
		c.region, err = g.stream.Capture(func(st *kompute.Stream) { c.record(st, g.model, g.state) })
	}
	if err == nil {
		return c, nil
	}
	if errors.Is(err, kompute.ErrCapture) && errors.Is(err, kompute.ErrUnsupported) {
		g.uncaptured, err = err, nil
	}
	return nil, errors.Join(err, g.closeStep())
}

// allocate makes what the step keeps.
func (c *step) allocate(d *kompute.Device, greedy bool) error {
	var errs [4]error
	c.token, errs[0] = kompute.Zeros[uint32](d, 1, 1)
	c.cursor, errs[1] = nn.NewCursor(d)
	c.chosen, errs[2] = kompute.NewMapped[uint32](d, c.capacity)
	if !greedy {
		c.params, errs[3] = kompute.Zeros[uint32](d, ops.SampleParamsSize)
	}
	return errors.Join(errs[:]...)
}

// record is the step: it feeds the token, chooses the next one, and leaves it for
// the next replay and for the host.
func (c *step) record(st *kompute.Stream, m model.Model, state model.DecodeState) {
	c.cursor.Load(st)
	position := c.cursor.Position()
	defer position.Close()

	logits := m.Forward(st, model.Pass{Tokens: c.token, State: state, At: c.cursor})
	next := choose(st, logits, c.params, ops.AtDevice(position))
	c.cursor.Advance(st)
	ops.SliceUpdate(st, c.chosen.Tensor(), next.Reshape(1), ops.AtDevice(position))
	ops.SliceUpdate(st, c.token, next)
}

// closeStep gives the captured step up, once the device is done with it.
func (s *Session) closeStep() error {
	c := s.captured
	if c == nil {
		return nil
	}
	s.captured = nil
	var errs []error
	if c.region != nil {
		errs = append(errs, c.region.Close())
	}
	for _, t := range []*kompute.Tensor[uint32]{c.token, c.params} {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	errs = append(errs, c.chosen.Close())
	return errors.Join(append(errs, c.cursor.Close())...)
}
