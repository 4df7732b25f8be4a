package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// stepper runs steps: it owns the pool, and a captured step for each size needed
// so far. It belongs to the replica's goroutine.
type stepper struct {
	model  model.Model
	config *Config
	stream *kompute.Stream
	pool   model.Pool
	// ring [maxInFlight, Sequences] holds the tokens that the last steps have chosen, for
	// the next step and for the host.
	ring  *kompute.Mapped[uint32]
	texts *texts
	// logits [Sequences, V], for each of the steps in flight, are those that the host needs.
	logits [maxInFlight]*kompute.Mapped[float32]
	// masks are those of each of the steps in flight, and held [Sequences, V] the logits of a
	// step whose masks are not known yet.
	masks [maxInFlight]*masks
	held  *kompute.Tensor[float32]
	// sizes has the steps that were captured; of more than mostSteps, those that were used last.
	sizes map[size]*step
	last  [maxInFlight]*step // the one that was started last in each slot
	// started is how many steps were started.
	started uint64
	idle    []uint32 // the sampling parameters of a row that is not used
	// uncaptured: the device cannot capture steps.
	uncaptured bool
}

func newStepper(m model.Model, c *Config) (*stepper, error) {
	t := &stepper{model: m, config: c, sizes: map[size]*step{}, idle: sample.Params{}.Encode(0)}
	d, vocabulary := m.Device(), m.Limits().Vocabulary
	var all [5]error
	t.stream, all[0] = d.NewStream()
	t.pool, all[1] = m.NewPool(c.pagesFor(c.CacheTokens), c.PageTokens, c.CacheType)
	t.ring, all[2] = kompute.NewMapped[uint32](d, maxInFlight, c.Sequences)
	t.texts, all[3] = newTexts(d, c.Sequences, vocabulary)
	t.held, all[4] = kompute.Zeros[float32](d, c.Sequences, vocabulary)
	err := errors.Join(all[:]...)
	for slot := range maxInFlight {
		var each [2]error
		t.logits[slot], each[0] = kompute.NewMapped[float32](d, c.Sequences, vocabulary)
		t.masks[slot], each[1] = newMasks(d, c.Sequences, vocabulary)
		err = errors.Join(err, each[0], each[1])
	}
	// The largest steps replace smaller ones for which there is no memory.
	for slot := 0; slot < maxInFlight && err == nil; slot++ {
		_, err = t.captured(t.largest(slot))
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// start enqueues a step. The choice of its tokens is left to choose if they depend on
// those of the step before.
func (t *stepper) start(ctx context.Context, f *pendingStep) error {
	c, err := t.captured(t.sizeFor(f))
	if err != nil {
		return err
	}
	t.started++
	f.step, c.used, f.unchosen, t.last[f.slot] = c, t.started, c.masked, c
	if err := errors.Join(t.fill(c, f), t.list(c, f), t.begin(f)); err != nil {
		return err
	}
	return t.run(ctx, f, c.region, t.recordStep)
}

// choose enqueues what start has left out, when the tokens of all steps before are known.
func (t *stepper) choose(ctx context.Context, f *pendingStep) error {
	f.unchosen = false
	if err := t.masks[f.slot].set(f.pieces); err != nil {
		return err
	}
	return t.run(ctx, f, f.step.choice, t.recordChoice)
}

// run replays a part of a step, or enqueues its ops where there is no region.
func (t *stepper) run(ctx context.Context, f *pendingStep, region *kompute.Region, record func(*kompute.Stream, *step)) (err error) {
	if region != nil {
		err = region.Replay(ctx)
	} else {
		sc := t.stream.Scope()
		record(t.stream, f.step)
		sc.Close()
	}
	t.stream.RecordInto(&f.done) // also if the choice follows: it submits the pass
	return errors.Join(err, t.stream.Err())
}

// begin makes the rows of texts that a step is the first to need.
func (t *stepper) begin(f *pendingStep) error {
	for i := range f.pieces {
		if p := &f.pieces[i]; p.adjusted() && f.step.adjusted {
			if err := t.texts.begin(t.stream, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits for a step.
func (t *stepper) wait(ctx context.Context, f *pendingStep) error { return f.done.Wait(ctx) }

// read gets the tokens that a step has chosen, and the states that the host wants.
func (t *stepper) read(ctx context.Context, f *pendingStep) error {
	f.tokens = slices.Grow(f.tokens[:0], f.chosen)[:f.chosen]
	err := t.ring.Peek(f.tokens, f.slot*t.config.Sequences)
	return errors.Join(err, readRows(ctx, &f.states, f.step.hidden, f.embedded))
}

// readRows reads the first n rows of a matrix, which may be none.
func readRows(ctx context.Context, into *[]float32, from *kompute.Tensor[float32], n int) error {
	if n == 0 {
		return nil
	}
	rows := from.Slice(0, 0, n)
	*into = slices.Grow((*into)[:0], rows.Size())[:rows.Size()]
	return errors.Join(rows.ReadInto(ctx, *into), rows.Close())
}

// list updates the step's page table: row i belongs to piece i.
func (t *stepper) list(c *step, f *pendingStep) error {
	for i := range f.pieces {
		p, l := &f.pieces[i], &c.listed[i]
		if l.admission != p.admission {
			*l = listed{admission: p.admission}
		}
		from := c.tableAt() + i*c.pages + l.pages
		if l.pages == len(p.pages) {
			continue
		}
		added := c.hostPlaces[from:][:len(p.pages)-l.pages]
		for j := range added {
			added[j] = p.pages[l.pages+j].number
		}
		l.pages = len(p.pages)
		if err := c.places.Poke(added, from); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the other operands of a step.
func (t *stepper) fill(c *step, f *pendingStep) error {
	n, page, ring := c.rows, int32(t.config.PageTokens), maxInFlight*t.config.Sequences
	places := c.hostPlaces[:c.tableAt()]
	positions, lengths, slots, sequences, sources := places[:n], places[n:2*n], places[2*n:3*n], places[3*n:4*n], places[4*n:5*n]
	chosen, tokens, params := places[5*n:c.textsAt()], c.hostInputs[:n], c.hostInputs[n:c.amountsAt()]
	clear(places)
	for k := range c.chosen {
		copy(params[k*ops.SampleParamsSize:], t.idle)
	}
	row := 0
	for i := range f.pieces {
		p := &f.pieces[i]
		for at := p.first; at < p.first+p.count; at++ {
			sources[row] = int32(ring + row)
			switch {
			case at < len(p.tokens):
				tokens[row] = uint32(p.tokens[at])
			case len(p.draft) > 0:
				tokens[row] = uint32(p.draft[at-len(p.tokens)])
			default:
				sources[row] = int32((1-f.slot)*t.config.Sequences + p.source)
			}
			positions[row], lengths[row], sequences[row] = int32(at), int32(at+1), int32(i)
			slots[row] = p.pages[at/int(page)].number*page + int32(at)%page
			row++
		}
		for j := range p.chosen {
			chosen[p.at+j] = int32(row - p.chosen + j)
			own := params[(p.at+j)*ops.SampleParamsSize:][:ops.SampleParamsSize]
			copy(own, p.params[:])
			own[opdef.SampleCounter] = uint32(p.draw + j)
		}
	}
	for ; row < n; row++ { // not used
		slots[row], sources[row], tokens[row] = -1, int32(ring+row), 0
	}
	if c.adjusted {
		c.fillTexts(f, t.texts.noText())
	}
	return errors.Join(c.places.Poke(places, 0), c.inputs.Poke(c.hostInputs, 0))
}

// fillTexts writes which text each row and each chosen token of a step belongs to, what the
// rows add to the counts of these texts, and the guesses before chosen tokens.
func (c *step) fillTexts(f *pendingStep, none int32) {
	texts, amounts := c.hostPlaces[c.textsAt():c.tableAt()], c.hostInputs[c.amountsAt():]
	for i := range texts {
		texts[i] = none
	}
	ofRows, ofChosen := texts[:c.rows], texts[c.rows:][:c.chosen]
	behind, guesses := texts[c.rows+c.chosen:], amounts[c.rows:]
	row, n := 0, 0
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.adjusted() {
			for j := range p.count {
				ofRows[row+j], amounts[row+j] = int32(p.row), p.penalties.amount(p.first+j)
			}
			clear(amounts[row+p.count-len(p.draft):][:len(p.draft)])
			for j := range p.chosen {
				ofChosen[p.at+j] = int32(p.row)
			}
		}
		if p.penalties != nil {
			for j := range p.draft {
				for _, guess := range p.draft[:j+1] {
					behind[n], guesses[n] = int32(p.at+j+1), uint32(guess)
					n++
				}
			}
		}
		row += p.count
	}
}

// captured returns the step of a size, which is captured when it is first needed.
// If there is no memory for it, it returns a larger one. If the device cannot
// capture steps, their ops are enqueued each time.
func (t *stepper) captured(z size) (*step, error) {
	if c := t.sizes[z]; c != nil {
		return c, nil
	}
	if err := t.makeRoom(); err != nil {
		return nil, err
	}
	c, err := t.capture(z)
	switch {
	case errors.Is(err, kompute.ErrOutOfMemory):
		if larger := t.larger(z); larger != nil {
			c, err = larger, nil
		}
	case err == nil && c.region == nil:
		t.uncaptured = true
	}
	if err == nil {
		t.sizes[z] = c
	}
	return c, err
}

// larger returns the smallest of the steps that can do the work of that size, nil if there is none.
func (t *stepper) larger(z size) (least *step) {
	for other, c := range t.sizes {
		if other.replaces(z) && (least == nil || c.size.compare(least.size) < 0) {
			least = c
		}
	}
	return least
}

// mostSteps is how many steps are kept. There are more sizes than that, and each step takes memory of the host and two
// or three allocations of the driver.
const mostSteps = 256

// makeRoom closes the step that was not used for the longest time, and is not in flight, if there are too many. If many
// sizes had no memory, they are tried again.
func (t *stepper) makeRoom() error {
	own := func(z size, c *step) bool { return z == c.size } // otherwise c does the work of z, for which there was no memory
	if len(t.sizes) >= 2*mostSteps {
		maps.DeleteFunc(t.sizes, func(z size, c *step) bool { return !own(z, c) })
	}
	n := 0
	var oldest *step
	for z, c := range t.sizes {
		if !own(z, c) {
			continue
		}
		n++
		if !slices.Contains(t.last[:], c) && z != t.largest(z.slot) && (oldest == nil || c.used < oldest.used) {
			oldest = c
		}
	}
	if n < mostSteps || oldest == nil {
		return nil
	}
	maps.DeleteFunc(t.sizes, func(_ size, c *step) bool { return c == oldest })
	return oldest.close()
}

// close frees everything once the device is done with it.
func (t *stepper) close() error {
	var errs []error
	for _, c := range t.sizes {
		errs = append(errs, c.close()) // a step that replaces others is closed repeatedly, which does nothing
	}
	errs = append(errs, t.ring.Close(), t.texts.close(), t.held.Close())
	for slot := range maxInFlight {
		errs = append(errs, t.logits[slot].Close(), t.masks[slot].close())
	}
	if t.pool != nil {
		errs = append(errs, t.pool.Close())
	}
	if t.stream != nil {
		errs = append(errs, t.stream.Close())
	}
	return errors.Join(errs...)
}
