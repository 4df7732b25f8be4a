package engine

import (
	"errors"
	"log/slog"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// size is how many rows a step has, after how many of them the device chooses a token,
// and how, and how many pages of each sequence it sees. Each of the steps in flight
// has operands of its own, and so regions of its own.
type size struct {
	rows, chosen int
	pages        int
	sampled      bool // not all tokens greedily
	logits       int  // how many of the chosen rows, the first ones, the host gets the logits of, to choose by itself
	states       bool // the host gets the states of all rows
	penalized    bool // the device applies penalties
	all          bool // a token is chosen after every row, in their order
	apart        bool // each row is of another sequence
	slot         int
}

// textsAt returns where in a step's places the texts of its rows begin, and then those of the
// chosen ones, if it is penalized.
func (z size) textsAt() int { return 5*z.rows + z.chosen }

// tableAt returns where in a step's places the pages of sequences begin.
func (z size) tableAt() int {
	if z.penalized {
		return z.textsAt() + z.rows + z.chosen
	}
	return z.textsAt()
}

// amountsAt returns where in a step's inputs those for the counts of texts begin.
func (z size) amountsAt() int { return z.rows + z.chosen*ops.SampleParamsSize }

// step is a captured step of one size, and its operands, which the host writes where
// the device reads them.
type step struct {
	size
	region *kompute.Region // nil if the device cannot capture it: then it is recorded each time
	// Where the rows stand, as in nn.Rows, where their tokens are among those of the
	// ring and of inputs, which of them choose a token, if penalized the texts of the
	// rows and of the chosen ones, and the pages of sequences.
	places *kompute.Mapped[int32] // [tableAt() + sequences*pages of each]
	// The rows' tokens that the host knows, how each chosen one is sampled and, if
	// penalized, what rows add to the counts of their texts.
	inputs *kompute.Mapped[uint32]  // [amountsAt(), or with rows more]
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
	if z.penalized {
		c.hostInputs = append(c.hostInputs, make([]uint32, z.rows)...)
	}
	var errs [3]error
	c.places, errs[0] = kompute.NewMapped[int32](d, len(c.hostPlaces))
	c.inputs, errs[1] = kompute.NewMapped[uint32](d, len(c.hostInputs))
	if z.states {
		c.hidden, errs[2] = kompute.Zeros[float32](d, z.rows, t.model.Limits().Width)
	}
	err := errors.Join(errs[:]...)
	if err == nil && !t.uncaptured {
		c.region, err = t.stream.Capture(func(s *kompute.Stream) { t.record(s, c) })
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

// record enqueues the step. It begins by copying its operands, because mapped
// memory is slow for the device.
func (t *stepper) record(s *kompute.Stream, c *step) {
	n, k := c.rows, c.chosen
	places, inputs := ops.Copy(s, c.places.Tensor()), ops.Copy(s, c.inputs.Tensor())
	part := func(first, n int) *kompute.Tensor[int32] { return places.Slice(0, first, first+n) }
	at := nn.Rows{
		Positions: part(0, n), Lengths: part(n, n), Slots: part(2*n, n), Sequences: part(3*n, n),
		Table: part(c.tableAt(), len(c.listed)*c.pages).Reshape(len(c.listed), c.pages),
		Apart: c.apart,
	}
	ring := t.ring.Tensor().Reshape(maxInFlight * t.config.Sequences)
	defer ring.Close()
	known := ops.Concat(s, 0, ring, inputs.Slice(0, 0, n))
	tokens := ops.Gather(s, known, part(4*n, n), 0)
	if c.penalized {
		ops.Tally(s, t.texts.counts, part(c.textsAt(), n), tokens, inputs.Slice(0, c.amountsAt(), c.amountsAt()+n))
	}
	pass := model.RowsPass{Tokens: tokens.Reshape(1, n), Pool: t.pool, At: &at, States: c.hidden}
	if !c.all {
		pass.Logits = part(5*n, k)
	}
	logits := t.model.ForwardRows(s, pass)
	if c.logits > 0 {
		ops.SliceUpdate(s, t.logits[c.slot].Tensor(), logits.Slice(0, 0, c.logits))
	}
	if c.penalized {
		ops.Penalize(s, logits, t.texts.counts, t.texts.penalties, part(c.textsAt()+n, k))
	}
	var ids *kompute.Tensor[uint32]
	if c.sampled {
		ids = ops.Sample(s, logits, inputs.Slice(0, n, c.amountsAt()).Reshape(k, ops.SampleParamsSize), ops.At(0))
	} else {
		ids = ops.Greedy(s, logits)
	}
	ops.SliceUpdate(s, t.ring.Tensor(), ids.Reshape(1, k), ops.At(c.slot), ops.At(0))
}

func (c *step) close() error {
	var errs []error
	if c.region != nil {
		errs = append(errs, c.region.Close())
	}
	errs = append(errs, c.places.Close(), c.inputs.Close())
	if c.hidden != nil {
		errs = append(errs, c.hidden.Close())
	}
	return errors.Join(errs...)
}
