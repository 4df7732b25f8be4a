package engine

import (
	"context"
	"errors"
	"math/bits"
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
	// logits [Sequences, V], for each of the steps in flight, are those from which the host chooses.
	logits [maxInFlight]*kompute.Mapped[float32]
	sizes  map[size]*step
	// started is how many steps were started.
	started uint64
	idle    []uint32 // the sampling parameters of a row that is not used
	// uncaptured: the device cannot capture steps.
	uncaptured bool
}

func newStepper(m model.Model, c *Config) (*stepper, error) {
	t := &stepper{model: m, config: c, sizes: map[size]*step{}, idle: sample.Params{}.Encode(0)}
	var errs [4 + maxInFlight]error
	t.stream, errs[0] = m.Device().NewStream()
	t.pool, errs[1] = m.NewPool(c.pagesFor(c.CacheTokens), c.PageTokens, c.CacheType)
	t.ring, errs[2] = kompute.NewMapped[uint32](m.Device(), maxInFlight, c.Sequences)
	t.texts, errs[3] = newTexts(m.Device(), c.Sequences, m.Limits().Vocabulary)
	for slot := range t.logits {
		t.logits[slot], errs[4+slot] = kompute.NewMapped[float32](m.Device(), c.Sequences, m.Limits().Vocabulary)
	}
	err := errors.Join(errs[:]...)
	// The largest steps replace smaller ones for which there is no memory.
	for slot := 0; slot < maxInFlight && err == nil; slot++ {
		_, err = t.captured(size{rows: c.mostRows(), chosen: c.Sequences, pages: t.mostPages(), sampled: true, logits: c.Sequences, states: true, penalized: true, slot: slot})
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// sizeFor returns the smallest size that a step fits in: powers of two for tokens
// that are generated. With pieces of prompts among them it is a power of four while a
// step takes nearly as long with few rows as with many, and a power of two from
// proportionalRows on, up to ChunkTokens.
func (t *stepper) sizeFor(f *pendingStep) size {
	z := t.rowsFor(f)
	for z.logits = min(f.onHost, 1); z.logits < f.onHost; {
		z.logits = min(4*z.logits, z.chosen)
	}
	return z
}

// rowsFor is sizeFor without the number of rows that the host gets logits of.
func (t *stepper) rowsFor(f *pendingStep) size {
	z := size{pages: t.visiblePages(f), slot: f.slot, states: f.embedded > 0}
	z.penalized = slices.ContainsFunc(f.pieces, func(p piece) bool { return p.penalties != nil })
	z.sampled = f.onHost > 0 || slices.ContainsFunc(f.pieces, func(p piece) bool { return p.chosen > 0 && !p.request.Sampling.Greedy() })
	if f.rows == f.chosen {
		z.rows = min(1<<bits.Len(uint(f.rows-1)), t.config.Sequences)
		z.chosen, z.all = z.rows, true
		z.apart = !slices.ContainsFunc(f.pieces, func(p piece) bool { return p.count > 1 })
		return z
	}
	z.rows, z.chosen = 16, 1
	for z.rows < f.rows {
		if z.rows < proportionalRows {
			z.rows *= 4
		} else {
			z.rows *= 2
		}
	}
	for z.chosen < f.chosen {
		z.chosen *= 4
	}
	if z.rows > t.config.ChunkTokens {
		z.rows = t.config.ChunkTokens
		if f.rows > z.rows {
			z.rows = t.config.mostRows()
		}
	}
	z.chosen = min(z.chosen, z.rows, t.config.Sequences)
	return z
}

// visiblePages returns how many pages of each sequence a step sees: as many as hold 256
// tokens, or two, or 4, 16, … times as many, or the whole context. Attention over pages
// has workgroups for all tokens that a row could see, which take time even if it does not
// see them. A row's sums do not depend on this number, provided that it is more than one
// (RATIONALE.md, Many requests).
func (t *stepper) visiblePages(f *pendingStep) int {
	most := 0
	for i := range f.pieces {
		most = max(most, len(f.pieces[i].pages))
	}
	n := max(t.config.pagesFor(256), 2)
	for n < most {
		n *= 4
	}
	return min(n, t.mostPages())
}

// mostPages is how many pages of a sequence a step can see.
func (t *stepper) mostPages() int { return max(t.config.pagesFor(t.config.Context), 2) }

// proportionalRows is how many rows a step must have to take about twice as long with
// twice as many.
const proportionalRows = 256

// start enqueues a step.
func (t *stepper) start(ctx context.Context, f *pendingStep) error {
	c, err := t.captured(t.sizeFor(f))
	if err != nil {
		return err
	}
	t.started++
	f.step, c.used = c, t.started
	if err := errors.Join(t.fill(c, f), t.list(c, f), t.begin(f)); err != nil {
		return err
	}
	if c.region != nil {
		err = c.region.Replay(ctx)
	} else {
		sc := t.stream.Scope()
		t.record(t.stream, c)
		sc.Close()
	}
	t.stream.RecordInto(&f.done)
	return errors.Join(err, t.stream.Err())
}

// begin makes the rows of texts that a step is the first to need.
func (t *stepper) begin(f *pendingStep) error {
	for i := range f.pieces {
		if p := &f.pieces[i]; p.penalties != nil {
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
	if c.penalized {
		c.fillTexts(f)
	}
	return errors.Join(c.places.Poke(places, 0), c.inputs.Poke(c.hostInputs, 0))
}

// fillTexts writes which text each row and each chosen token of a step belongs to, -1 where
// there are no penalties, and what the rows add to the counts of these texts.
func (c *step) fillTexts(f *pendingStep) {
	texts, amounts := c.hostPlaces[c.textsAt():c.tableAt()], c.hostInputs[c.amountsAt():]
	for i := range texts {
		texts[i] = -1
	}
	ofRows, ofChosen := texts[:c.rows], texts[c.rows:]
	row := 0
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.penalties != nil {
			for j := range p.count {
				ofRows[row+j], amounts[row+j] = int32(p.row), p.penalties.amount(p.first+j)
			}
			for j := range p.chosen {
				ofChosen[p.at+j] = int32(p.row)
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
	c, err := t.capture(z)
	switch {
	case errors.Is(err, kompute.ErrOutOfMemory):
		for other, larger := range t.sizes {
			if other.replaces(z) {
				c, err = larger, nil
			}
		}
	case err == nil && c.region == nil:
		t.uncaptured = true
	}
	if err == nil {
		t.sizes[z] = c
	}
	return c, err
}

// replaces reports whether a step of the larger size z can do what one of the smaller does.
func (z size) replaces(smaller size) bool {
	return z.rows >= smaller.rows && z.chosen >= smaller.chosen && z.pages >= smaller.pages && z.sampled && z.logits >= smaller.logits &&
		(z.states || !smaller.states) && (z.penalized || !smaller.penalized) && (smaller.all || !z.all) && (smaller.apart || !z.apart) && z.slot == smaller.slot
}

// close frees everything once the device is done with it.
func (t *stepper) close() error {
	var errs []error
	for _, c := range t.sizes {
		errs = append(errs, c.close()) // a step that replaces others is closed repeatedly, which does nothing
	}
	errs = append(errs, t.ring.Close(), t.texts.close())
	for _, m := range t.logits {
		errs = append(errs, m.Close())
	}
	if t.pool != nil {
		errs = append(errs, t.pool.Close())
	}
	if t.stream != nil {
		errs = append(errs, t.stream.Close())
	}
	return errors.Join(errs...)
}
