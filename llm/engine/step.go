package engine

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"

	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// stepper runs steps: it owns the pool, the page table, and a captured step for
// each size that was needed. It belongs to the engine's goroutine.
type stepper struct {
	model  model.Model
	config *Config
	stream *kompute.Stream
	pool   model.Pool
	table  *kompute.Tensor[int32] // [Sequences, pages of a sequence]
	pages  []int32                // its content
	// ring [flights, Sequences] holds the tokens that the last steps have chosen, for
	// the next step and for the host.
	ring  *kompute.Mapped[uint32]
	sizes map[size]*step
	idle  []uint32 // the sampling parameters of a row that is not used
}

// mode is how the tokens of a step are chosen.
type mode uint8

const (
	greedy     mode = iota // on the device, all of them greedily
	sampled                // on the device
	withLogits             // likewise, and the host gets logits to choose itself
)

// size is how many rows a step has, of how many a token is chosen, and how.
type size struct {
	rows, chosen int
	mode         mode
}

// step is a captured step of one size, and its operands.
type step struct {
	size
	region *kompute.Region
	// Where the rows stand, as in nn.Rows, where their tokens are among those of the
	// ring and of words, which of them choose a token, and where in the ring those go.
	places *kompute.Tensor[int32] // [5*rows + chosen + 2]
	// The rows' tokens that the host knows, and how each chosen one is sampled.
	words  *kompute.Tensor[uint32]  // [rows + chosen*SampleParamsSize]
	logits *kompute.Tensor[float32] // [chosen, V], with mode withLogits

	hostPlaces []int32
	hostWords  []uint32
}

func newStepper(m model.Model, c *Config) (*stepper, error) {
	t := &stepper{model: m, config: c, sizes: map[size]*step{}, idle: sample.Params{}.Encode(0)}
	perSequence := c.pagesFor(c.Context)
	t.pages = make([]int32, c.Sequences*perSequence)
	var errs [4]error
	t.stream, errs[0] = m.Device().NewStream()
	t.pool, errs[1] = m.NewPool(c.pagesFor(c.CacheTokens), c.PageTokens)
	t.table, errs[2] = kompute.Zeros[int32](m.Device(), c.Sequences, perSequence)
	t.ring, errs[3] = kompute.NewMapped[uint32](m.Device(), mostFlights, c.Sequences)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// sizeFor returns the smallest size that a step fits in: powers of two for tokens
// that are generated, powers of four with pieces of prompts among them.
func (t *stepper) sizeFor(f *flight) size {
	z := size{mode: greedy}
	switch {
	case f.onHost > 0:
		z.mode = withLogits
	case slices.ContainsFunc(f.pieces, func(p piece) bool { return p.chosen > 0 && !p.request.Sampling.Greedy() }):
		z.mode = sampled
	}
	if f.rows == f.chosen {
		z.rows = min(1<<bits.Len(uint(f.rows-1)), t.config.Sequences)
		z.chosen = z.rows
		return z
	}
	z.rows, z.chosen = 16, 1
	for z.rows < f.rows {
		z.rows *= 4
	}
	for z.chosen < f.chosen {
		z.chosen *= 4
	}
	z.rows, z.chosen = min(z.rows, t.config.ChunkTokens+t.config.Sequences), min(z.chosen, t.config.Sequences)
	return z
}

// start enqueues a step.
func (t *stepper) start(ctx context.Context, f *flight) error {
	c, err := t.captured(t.sizeFor(f))
	if err != nil {
		return err
	}
	f.step = c
	t.fill(c, f)
	err = errors.Join(c.places.Write(ctx, c.hostPlaces), c.words.Write(ctx, c.hostWords))
	if err == nil && f.tables {
		err = t.writeTable(ctx, f.pieces)
	}
	if err != nil {
		return err
	}
	if err := c.region.Replay(ctx); err != nil {
		return err
	}
	t.stream.RecordInto(&f.done)
	return nil
}

// wait waits for a step.
func (t *stepper) wait(ctx context.Context, f *flight) error { return f.done.Wait(ctx) }

// read gets the tokens that a step has chosen, and the logits that the host wants.
func (t *stepper) read(ctx context.Context, f *flight) error {
	f.tokens = slices.Grow(f.tokens[:0], f.chosen)[:f.chosen]
	if err := t.ring.Peek(f.tokens, f.slot*t.config.Sequences); err != nil || f.onHost == 0 {
		return err
	}
	rows := f.step.logits.Slice(0, 0, f.onHost)
	f.logits = slices.Grow(f.logits[:0], rows.Size())[:rows.Size()]
	return errors.Join(rows.ReadInto(ctx, f.logits), rows.Close())
}

// writeTable brings the device's page table up to date.
func (t *stepper) writeTable(ctx context.Context, pieces []piece) error {
	perSequence := len(t.pages) / t.config.Sequences
	for i := range pieces {
		own := t.pages[pieces[i].row*perSequence:]
		for j, p := range pieces[i].pages {
			own[j] = p.number
		}
	}
	return t.table.Write(ctx, t.pages)
}

// fill writes the operands of a step.
func (t *stepper) fill(c *step, f *flight) {
	n, page, ring := c.rows, int32(t.config.PageTokens), mostFlights*t.config.Sequences
	positions, lengths, slots := c.hostPlaces[:n], c.hostPlaces[n:2*n], c.hostPlaces[2*n:3*n]
	sequences, sources := c.hostPlaces[3*n:4*n], c.hostPlaces[4*n:5*n]
	chosen, start := c.hostPlaces[5*n:5*n+c.chosen], c.hostPlaces[5*n+c.chosen:]
	tokens, params := c.hostWords[:n], c.hostWords[n:]
	clear(c.hostPlaces)
	for k := range c.chosen {
		copy(params[k*ops.SampleParamsSize:], t.idle)
	}
	row := 0
	for i := range f.pieces {
		p := &f.pieces[i]
		for at := p.first; at < p.first+p.count; at++ {
			sources[row] = int32(ring + row)
			if at < len(p.tokens) {
				tokens[row] = uint32(p.tokens[at])
			} else {
				sources[row] = int32((1-f.slot)*t.config.Sequences + p.source)
			}
			positions[row], lengths[row], sequences[row] = int32(at), int32(at+1), int32(p.row)
			slots[row] = p.pages[at/int(page)].number*page + int32(at)%page
			row++
		}
		if p.chosen > 0 {
			chosen[p.at] = int32(row - 1)
			own := params[p.at*ops.SampleParamsSize:][:ops.SampleParamsSize]
			copy(own, p.params[:])
			own[opdef.SampleCounter] = uint32(p.draw)
		}
	}
	for ; row < n; row++ { // not used
		slots[row], sources[row], tokens[row] = -1, int32(ring+row), 0
	}
	start[0] = int32(f.slot)
}

// captured returns the step of a size, which is captured when it is first needed.
func (t *stepper) captured(z size) (*step, error) {
	if c := t.sizes[z]; c != nil {
		return c, nil
	}
	d := t.model.Device()
	c := &step{size: z, hostPlaces: make([]int32, 5*z.rows+z.chosen+2), hostWords: make([]uint32, z.rows+z.chosen*ops.SampleParamsSize)}
	var errs [4]error
	c.places, errs[0] = kompute.Zeros[int32](d, len(c.hostPlaces))
	c.words, errs[1] = kompute.Zeros[uint32](d, len(c.hostWords))
	if z.mode == withLogits {
		c.logits, errs[2] = kompute.Zeros[float32](d, z.chosen, t.model.Limits().Vocabulary)
	}
	if errs[3] = errors.Join(errs[:3]...); errs[3] == nil {
		c.region, errs[3] = t.stream.Capture(func(s *kompute.Stream) { t.record(s, c) })
	}
	if errs[3] != nil {
		return nil, errors.Join(errs[3], c.close())
	}
	t.sizes[z] = c
	return c, nil
}

// record is the step.
func (t *stepper) record(s *kompute.Stream, c *step) {
	n := c.rows
	views := viewer{}
	defer views.close()
	rows := nn.Rows{
		Positions: views.int32s(c.places, 0, n), Lengths: views.int32s(c.places, n, n), Slots: views.int32s(c.places, 2*n, n),
		Sequences: views.int32s(c.places, 3*n, n), Table: t.table,
	}
	ring := t.ring.Tensor().Reshape(mostFlights * t.config.Sequences)
	views.views = append(views.views, ring)
	known := ops.Concat(s, 0, ring, views.uint32s(c.words, 0, n))
	tokens := ops.Gather(s, known, views.int32s(c.places, 4*n, n), 0)
	pass := model.RowsPass{Tokens: tokens.Reshape(1, n), Pool: t.pool, At: &rows}
	if c.chosen < n {
		pass.Logits = views.int32s(c.places, 5*n, c.chosen)
	}
	logits := t.model.ForwardRows(s, pass)
	if c.logits != nil {
		ops.SliceUpdate(s, c.logits, logits)
	}
	var ids *kompute.Tensor[uint32]
	if c.mode == greedy {
		ids = ops.ArgMax(s, logits, -1)
	} else {
		ids = ops.Sample(s, logits, views.grid(c.words, n, c.chosen, ops.SampleParamsSize), ops.At(0))
	}
	ops.SliceUpdate(s, t.ring.Tensor(), ids.Reshape(1, c.chosen), ops.AtDevice(views.int32s(c.places, 5*n+c.chosen, 2)))
}

// viewer makes views of operands and closes them together.
type viewer struct{ views []io.Closer }

func (v *viewer) int32s(x *kompute.Tensor[int32], first, n int) *kompute.Tensor[int32] {
	part := x.Slice(0, first, first+n)
	v.views = append(v.views, part)
	return part
}

func (v *viewer) uint32s(x *kompute.Tensor[uint32], first, n int) *kompute.Tensor[uint32] {
	part := x.Slice(0, first, first+n)
	v.views = append(v.views, part)
	return part
}

func (v *viewer) grid(x *kompute.Tensor[uint32], first, rows, cols int) *kompute.Tensor[uint32] {
	grid := v.uint32s(x, first, rows*cols).Reshape(rows, cols)
	v.views = append(v.views, grid)
	return grid
}

func (v *viewer) close() {
	for _, view := range v.views {
		_ = view.Close() // closing a view cannot fail
	}
}

func (c *step) close() error {
	var errs []error
	if c.region != nil {
		errs = append(errs, c.region.Close())
	}
	if c.places != nil {
		errs = append(errs, c.places.Close())
	}
	if c.words != nil {
		errs = append(errs, c.words.Close())
	}
	if c.logits != nil {
		errs = append(errs, c.logits.Close())
	}
	return errors.Join(errs...)
}

// close frees everything once the device is done with it.
func (t *stepper) close() error {
	var errs []error
	for _, c := range t.sizes {
		errs = append(errs, c.close())
	}
	if t.table != nil {
		errs = append(errs, t.table.Close())
	}
	errs = append(errs, t.ring.Close())
	if t.pool != nil {
		errs = append(errs, t.pool.Close())
	}
	if t.stream != nil {
		errs = append(errs, t.stream.Close())
	}
	return errors.Join(errs...)
}
