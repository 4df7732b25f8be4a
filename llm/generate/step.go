package generate

import (
	"errors"
	"log/slog"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// step is one decode step, and what it keeps on the device: it feeds the token
// that the previous step has chosen, and advances by itself. The host only reads
// the chosen tokens. So each run is the same work in the same memory, whether its
// ops are enqueued or a region is replayed.
type step struct {
	region   *kompute.Region         // the step, captured; nil until it is replayed
	capacity int                     // capacity of its state
	params   *kompute.Tensor[uint32] // sampling parameters of [ops.Sample]; nil is greedy
	applied  *penalties              // nil: none
	token    *kompute.Tensor[uint32] // [1, 1], the token to be fed next
	cursor   *nn.Cursor              // its position
	chosen   *kompute.Mapped[uint32] // [capacity], the token that follows each position
}

// decodeStep returns the session's step for its current state, for greedy or sampled
// tokens, and with or without penalties: that of earlier generations if it fits.
func (g *generation) decodeStep() (*step, error) {
	greedy := g.options.Sampling.Greedy()
	if c := g.step; c != nil {
		if c.capacity == g.state.Capacity() && (c.params == nil) == greedy && c.applied == g.applied {
			return c, nil
		}
		if err := g.closeStep(); err != nil {
			return nil, err
		}
	}
	g.step = &step{capacity: g.state.Capacity(), applied: g.applied}
	if err := g.step.allocate(g.model.Device(), greedy); err != nil {
		return nil, errors.Join(err, g.closeStep())
	}
	return g.step, nil
}

// capture captures the step, unless that has been done. It returns false if the
// device cannot.
func (g *generation) capture(c *step) (bool, error) {
	if c.region != nil || g.uncaptured != nil {
		return c.region != nil, nil
	}
	err := g.makingRoom(func() (err error) {
		c.region, err = g.stream.Capture(func(st *kompute.Stream) { c.record(st, g.model, g.state) })
		return err
	})
	if errors.Is(err, kompute.ErrCapture) && errors.Is(err, kompute.ErrUnsupported) {
		d := g.model.Device()
		d.Logger().Warn("tokens are computed op by op: their step cannot be captured",
			slog.String("reason", err.Error()), slog.String("device", d.Info().Name))
		g.uncaptured, err = err, nil
	}
	return c.region != nil, err
}

// begin enqueues, after the prompt, the initial values of the step: the token
// that follows the prompt, its position and the sampling parameters.
func (c *step) begin(g *generation, token *kompute.Tensor[uint32]) error {
	position := g.state.Len()
	sc := g.stream.Scope()
	defer sc.Close()
	ops.SliceUpdate(g.stream, c.token, token)
	c.cursor.Set(g.stream, position)
	if c.params != nil {
		// The token after position p is number p + 1 - position, counted from the first of this run.
		params := g.options.Sampling.Encode(uint64(int64(g.first) + 1 - int64(position)))
		ops.SliceUpdate(g.stream, c.params, kompute.Constant(g.stream, params, ops.SampleParamsSize))
	}
	return g.stream.Flush()
}

// allocate makes the step's tensors.
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

// record enqueues the step: it feeds the token, chooses the next one, and stores
// it for the next run and for the host.
func (c *step) record(st *kompute.Stream, m model.Model, state model.DecodeState) {
	c.cursor.Load(st)
	position := c.cursor.Position()
	defer position.Close()

	c.applied.count(st, c.token)
	logits := m.Forward(st, model.Pass{Tokens: c.token, State: state, At: c.cursor})
	next := choose(st, logits, c.applied, c.params, ops.AtDevice(position))
	c.cursor.Advance(st)
	ops.SliceUpdate(st, c.chosen.Tensor(), next.Reshape(1), ops.AtDevice(position))
	ops.SliceUpdate(st, c.token, next)
}

// chosenAt returns the token that follows a position, once the run that chooses
// it is done.
func (c *step) chosenAt(position int) (int, error) {
	var id [1]uint32
	if err := c.chosen.Peek(id[:], position); err != nil {
		return 0, err
	}
	return int(id[0]), sample.Check(id[0])
}

// release frees the region, which may be captured again. A nil step has none.
func (c *step) release() error {
	if c == nil || c.region == nil {
		return nil
	}
	region := c.region
	c.region = nil
	return region.Close()
}

// closeStep frees the step, once the device is done with it.
func (s *Session) closeStep() error {
	c := s.step
	if c == nil {
		return nil
	}
	s.step = nil
	errs := []error{c.release()}
	for _, t := range []*kompute.Tensor[uint32]{c.token, c.params} {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	errs = append(errs, c.chosen.Close())
	return errors.Join(append(errs, c.cursor.Close())...)
}
