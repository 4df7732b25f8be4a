package engine

import (
	"context"
	"errors"
	"io"
	"math/bits"

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
	sizes  map[size]*step
	done   kompute.Event
}

// size is how many rows a step has, and of how many a token is chosen.
type size struct{ rows, chosen int }

// step is a captured step of one size, and its operands.
type step struct {
	size
	region *kompute.Region
	// Where the rows stand, as in nn.Rows, and which of them choose a token.
	places *kompute.Tensor[int32] // [4*rows + chosen]
	// The rows' tokens, and how each chosen one is sampled.
	words  *kompute.Tensor[uint32] // [rows + chosen*SampleParamsSize]
	chosen *kompute.Mapped[uint32] // [chosen]

	hostPlaces []int32
	hostWords  []uint32
	tokens     []uint32
}

func newStepper(m model.Model, c *Config) (*stepper, error) {
	t := &stepper{model: m, config: c, sizes: map[size]*step{}}
	perSequence := c.pagesFor(c.Context)
	t.pages = make([]int32, c.Sequences*perSequence)
	var errs [3]error
	t.stream, errs[0] = m.Device().NewStream()
	t.pool, errs[1] = m.NewPool(c.pagesFor(c.CacheTokens), c.PageTokens)
	t.table, errs[2] = kompute.Zeros[int32](m.Device(), c.Sequences, perSequence)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// sizeFor returns the smallest size that n rows fit in, of which k choose a token:
// powers of two for tokens that are generated, powers of four with pieces of
// prompts among them.
func (c *Config) sizeFor(n, k int) size {
	if n == k {
		rows := min(1<<bits.Len(uint(n-1)), c.Sequences)
		return size{rows, rows}
	}
	rows := 16
	for rows < n {
		rows *= 4
	}
	return size{min(rows, c.ChunkTokens+c.Sequences), c.Sequences}
}

// run feeds the pieces and returns the token chosen behind each one that is the
// last of its sequence, in their order. tables says that page tables have changed.
func (t *stepper) run(ctx context.Context, pieces []piece, tables bool) ([]uint32, error) {
	rows, chosen := 0, 0
	for i := range pieces {
		rows += pieces[i].count
		if pieces[i].last() {
			chosen++
		}
	}
	c, err := t.captured(t.config.sizeFor(rows, chosen))
	if err != nil {
		return nil, err
	}
	t.fill(c, pieces)
	err = errors.Join(c.places.Write(ctx, c.hostPlaces), c.words.Write(ctx, c.hostWords))
	if err == nil && tables {
		err = t.writeTable(ctx, pieces)
	}
	if err != nil {
		return nil, err
	}
	if err := c.region.Replay(ctx); err != nil {
		return nil, err
	}
	t.stream.RecordInto(&t.done)
	if err := t.done.Wait(ctx); err != nil {
		return nil, err
	}
	return c.tokens[:chosen], c.chosen.Peek(c.tokens[:chosen], 0)
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
func (t *stepper) fill(c *step, pieces []piece) {
	n, page := c.rows, int32(t.config.PageTokens)
	positions, lengths, slots, sequences := c.hostPlaces[:n], c.hostPlaces[n:2*n], c.hostPlaces[2*n:3*n], c.hostPlaces[3*n:4*n]
	chosen, tokens, params := c.hostPlaces[4*n:], c.hostWords[:n], c.hostWords[n:]
	clear(c.hostPlaces)
	clear(c.hostWords)
	row, k := 0, 0
	for i := range pieces {
		p := &pieces[i]
		for at := p.first; at < p.first+p.count; at++ {
			tokens[row] = uint32(p.tokens[at])
			positions[row], lengths[row], sequences[row] = int32(at), int32(at+1), int32(p.row)
			slots[row] = p.pages[at/int(page)].number*page + int32(at)%page
			row++
		}
		if p.last() {
			chosen[k] = int32(row - 1)
			copy(params[k*ops.SampleParamsSize:], p.request.Sampling.Encode(uint64(p.generated())))
			k++
		}
	}
	for ; row < n; row++ { // not used
		slots[row] = -1
	}
	for ; k < c.size.chosen; k++ {
		copy(params[k*ops.SampleParamsSize:], sample.Params{}.Encode(0))
	}
}

// captured returns the step of a size, which is captured when it is first needed.
func (t *stepper) captured(z size) (*step, error) {
	if c := t.sizes[z]; c != nil {
		return c, nil
	}
	d := t.model.Device()
	c := &step{
		size: z, hostPlaces: make([]int32, 4*z.rows+z.chosen), hostWords: make([]uint32, z.rows+z.chosen*ops.SampleParamsSize),
		tokens: make([]uint32, z.chosen),
	}
	var errs [4]error
	c.places, errs[0] = kompute.Zeros[int32](d, len(c.hostPlaces))
	c.words, errs[1] = kompute.Zeros[uint32](d, len(c.hostWords))
	c.chosen, errs[2] = kompute.NewMapped[uint32](d, z.chosen)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.region, errs[3] = t.stream.Capture(func(s *kompute.Stream) { t.record(s, c) })
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
	wanted := views.int32s(c.places, 4*n, c.size.chosen)
	tokens := views.uint32s(c.words, 0, 1, n)
	params := views.uint32s(c.words, n, c.size.chosen, ops.SampleParamsSize)
	logits := t.model.ForwardRows(s, model.RowsPass{Tokens: tokens, Pool: t.pool, At: &rows, Logits: wanted})
	ops.SliceUpdate(s, c.chosen.Tensor(), ops.Sample(s, logits, params, ops.At(0)))
}

// viewer makes views of operands and closes them together.
type viewer struct{ views []io.Closer }

func (v *viewer) int32s(x *kompute.Tensor[int32], first, n int) *kompute.Tensor[int32] {
	part := x.Slice(0, first, first+n)
	v.views = append(v.views, part)
	return part
}

func (v *viewer) uint32s(x *kompute.Tensor[uint32], first, rows, cols int) *kompute.Tensor[uint32] {
	part := x.Slice(0, first, first+rows*cols)
	grid := part.Reshape(rows, cols)
	v.views = append(v.views, part, grid)
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
	return errors.Join(append(errs, c.chosen.Close())...)
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
	if t.pool != nil {
		errs = append(errs, t.pool.Close())
	}
	if t.stream != nil {
		errs = append(errs, t.stream.Close())
	}
	return errors.Join(errs...)
}
