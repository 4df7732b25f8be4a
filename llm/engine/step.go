package engine

import (
	"errors"
	"log/slog"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// step is a captured step of one size, and its operands, which the host writes where
// the device reads them.
type step struct {
	size
	region *kompute.Region // nil if the device cannot capture it: then it is recorded each time
	choice *kompute.Region // the choice of tokens, if it is masked; otherwise region contains it
	// Where the rows stand, as in nn.Rows, where their tokens are among those of the
	// ring and of inputs, which of them choose a token, if adjusted the texts of the
	// rows and of the chosen ones and the places of guesses, and the pages of sequences.
	places *kompute.Mapped[int32] // [tableAt() + sequences*pages of each]
	// The rows' tokens that the host knows, how each chosen one is sampled and, if
	// adjusted, what rows add to the counts of their texts, and guesses.
	inputs *kompute.Mapped[uint32]  // [amountsAt(), and if adjusted rows + guesses more]
	hidden *kompute.Tensor[float32] // [rows, H], with states

	hostPlaces []int32
	hostInputs []uint32
	listed     []listed // what the rows of the page table hold
	used       uint64   // the number of its last use among those of all steps; 0: none
}

// listed is a row of a page table.
type listed struct {
	admission uint64 // the number of its sequence's admission
	pages     int    // of it
}

func (t *stepper) capture(z size) (*step, error) {
	d, sequences := t.model.Device(), min(z.rows, t.config.Sequences)
	c := &step{
		size: z, listed: make([]listed, sequences),
		hostPlaces: make([]int32, z.tableAt()+sequences*z.pages), hostInputs: make([]uint32, z.amountsAt()),
	}
	if z.adjusted {
		c.hostInputs = append(c.hostInputs, make([]uint32, z.rows+z.guesses)...)
	}
	var errs [3]error
	c.places, errs[0] = kompute.NewMapped[int32](d, len(c.hostPlaces))
	c.inputs, errs[1] = kompute.NewMapped[uint32](d, len(c.hostInputs))
	if z.states {
		c.hidden, errs[2] = kompute.Zeros[float32](d, z.rows, t.model.Limits().Width)
	}
	err := errors.Join(errs[:]...)
	if err == nil && !t.uncaptured {
		c.region, err = t.stream.Capture(func(s *kompute.Stream) { t.recordStep(s, c) })
		if err == nil && z.masked {
			c.choice, err = t.stream.Capture(func(s *kompute.Stream) { t.recordChoice(s, c) })
		}
		if errors.Is(err, kompute.ErrCapture) && errors.Is(err, kompute.ErrUnsupported) {
			d.Logger().Warn("steps are computed op by op: they cannot be captured",
				slog.String("reason", err.Error()), slog.String("device", d.Info().Name))
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// operands are those of a step, copied, because mapped memory is slow for the device.
type operands struct {
	*step
	copyOfPlaces *kompute.Tensor[int32]
	copyOfInputs *kompute.Tensor[uint32]
}

func (c *step) copied(s *kompute.Stream) operands {
	return operands{c, ops.Copy(s, c.places.Tensor()), ops.Copy(s, c.inputs.Tensor())}
}

// part returns n of the places from the first one on.
func (o *operands) part(first, n int) *kompute.Tensor[int32] {
	return o.copyOfPlaces.Slice(0, first, first+n)
}

// recordStep enqueues a step, up to the choice of its tokens if that is not known yet.
func (t *stepper) recordStep(s *kompute.Stream, c *step) {
	o := c.copied(s)
	logits := t.enqueuePass(s, &o)
	if c.masked {
		ops.SliceUpdate(s, t.held, logits, ops.At(0), ops.At(0))
		return
	}
	t.enqueueChoice(s, &o, logits)
}

// recordChoice enqueues what recordStep has left out.
func (t *stepper) recordChoice(s *kompute.Stream, c *step) {
	o := c.copied(s)
	logits := t.held.Slice(0, 0, c.chosen)
	defer logits.Close()
	t.enqueueChoice(s, &o, logits)
}

// enqueuePass enqueues the pass over a step's rows, and returns the logits [chosen, V].
func (t *stepper) enqueuePass(s *kompute.Stream, o *operands) *kompute.Tensor[float32] {
	n := o.rows
	at := nn.Rows{
		Positions: o.part(0, n), Lengths: o.part(n, n), Slots: o.part(2*n, n), Sequences: o.part(3*n, n),
		Table: o.part(o.tableAt(), len(o.listed)*o.pages).Reshape(len(o.listed), o.pages),
		Apart: o.apart,
	}
	ring := t.ring.Tensor().Reshape(maxInFlight * t.config.Sequences)
	defer ring.Close()
	known := ops.Concat(s, 0, ring, o.copyOfInputs.Slice(0, 0, n))
	tokens := ops.Gather(s, known, o.part(4*n, n), 0)
	if o.adjusted {
		ops.Tally(s, t.texts.counts, o.part(o.textsAt(), n), tokens, o.copyOfInputs.Slice(0, o.amountsAt(), o.amountsAt()+n))
	}
	pass := model.RowsPass{Tokens: tokens.Reshape(1, n), Pool: t.pool, At: &at, States: o.hidden}
	if !o.all {
		pass.Logits = o.part(5*n, o.chosen)
	}
	return t.model.ForwardRows(s, pass)
}

// enqueueChoice enqueues the choice of a step's tokens from their logits, which it may change.
func (t *stepper) enqueueChoice(s *kompute.Stream, o *operands, logits *kompute.Tensor[float32]) {
	n, k := o.rows, o.chosen
	if o.logits > 0 {
		needed := logits.Slice(0, 0, o.logits)
		defer needed.Close()
		ops.SliceUpdate(s, t.logits[o.slot].Tensor(), needed)
	}
	if o.adjusted {
		t.penalize(s, o, logits)
	}
	if o.biased { // gather gives zeros for a row that does not exist
		logits = ops.Add(s, logits, ops.Gather(s, t.texts.biases, o.part(o.textsAt()+n, k), 0))
	}
	if o.masked {
		allowed := t.masks[o.slot].device.Tensor().Slice(0, 0, k)
		defer allowed.Close()
		ops.Mask(s, logits, ops.Copy(s, allowed))
	}
	var ids *kompute.Tensor[uint32]
	if o.sampled {
		ids = ops.Sample(s, logits, o.copyOfInputs.Slice(0, n, o.amountsAt()).Reshape(k, ops.SampleParamsSize), ops.At(0))
	} else {
		ids = ops.Greedy(s, logits)
	}
	ops.SliceUpdate(s, t.ring.Tensor(), ids.Reshape(1, k), ops.At(o.slot), ops.At(0))
}

// penalize enqueues the penalties. Behind a guess, a text contains the guesses before, too, so each row
// gets counts of its own.
func (t *stepper) penalize(s *kompute.Stream, o *operands, logits *kompute.Tensor[float32]) {
	counts, penalties, rows := t.texts.counts, t.texts.penalties, o.part(o.textsAt()+o.rows, o.chosen)
	if o.guesses > 0 {
		counts, penalties = ops.Gather(s, counts, rows, 0), ops.Gather(s, penalties, rows, 0)
		from := o.amountsAt() + o.rows
		ops.Tally(s, counts, o.part(o.guessesAt(), o.guesses), o.copyOfInputs.Slice(0, from, from+o.guesses), ops.Fill(s, uint32(1), o.guesses))
		rows = ops.Arange[int32](s, 0, float64(o.chosen), 1)
	}
	ops.Penalize(s, logits, counts, penalties, rows)
}

func (c *step) close() error {
	var errs []error
	for _, r := range []*kompute.Region{c.region, c.choice} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	errs = append(errs, c.places.Close(), c.inputs.Close())
	if c.hidden != nil {
		errs = append(errs, c.hidden.Close())
	}
	return errors.Join(errs...)
}
