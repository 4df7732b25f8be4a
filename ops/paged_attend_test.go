package ops_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// pagedRows describes new tokens on their way to attention over pages. Each is of a sequence
// of its own, whose earlier keys are in the pages.
type pagedRows struct {
	heads, kvHeads, d, length int
	meet                      bool // the first two are of one sequence instead
	unused                    int  // columns of the table
	infinite                  bool // the first element of the first value head of the first one
	whole                     bool // each sequence is in one page
	joint                     bool // a row has queries, keys and values one after the other, as one product gives them
}

// pages returns how many tokens a page has, and a sequence pages.
func (p pagedRows) pages() (tokens, pages int) {
	if p.whole {
		return 1040, 1
	}
	return 16, 20
}

// first returns the first rows of x.
func first[E kompute.Element](l *layer[float32], x *kompute.Tensor[E], rows int) *kompute.Tensor[E] {
	view := x.Slice(0, 0, rows)
	l.open = append(l.open, view)
	return view
}

// pagedOperands are the tensors of the first rows of three such tokens.
type pagedOperands[C ops.PageElement] struct {
	pagedRows
	rows                                 int
	q, k, v                              *kompute.Tensor[float32]
	gains                                []*kompute.Tensor[float32]
	keyPages, valuePages                 *kompute.Tensor[C]
	positions, lengths, slots, sequences *kompute.Tensor[int32]
	table                                *kompute.Tensor[int32]
}

func newPagedOperands[C ops.PageElement](l *layer[float32], p pagedRows, rows int) *pagedOperands[C] {
	o := &pagedOperands[C]{pagedRows: p, rows: rows}
	o.q, o.k, o.v = p.projections(l)
	o.gains = []*kompute.Tensor[float32]{l.floats(p.d), l.floats(p.d)}
	tokens, pages := p.pages()
	o.keyPages = randomPages[C](l, 3*pages, p.kvHeads, tokens, p.d)
	o.valuePages = randomPages[C](l, 3*pages, p.kvHeads, tokens, p.d)
	o.place(l)
	o.q, o.k, o.v = first(l, o.q, rows), first(l, o.k, rows), first(l, o.v, rows)
	return o
}

// projections returns queries, keys and values of three tokens.
func (p pagedRows) projections(l *layer[float32]) (q, k, v *kompute.Tensor[float32]) {
	q, k, v = l.floats(3, p.heads, p.d), l.floats(3, p.kvHeads, p.d), l.floats(3, p.kvHeads, p.d)
	if p.joint {
		all := l.floats(3, p.heads+2*p.kvHeads, p.d)
		part := func(from, n int) *kompute.Tensor[float32] {
			view := all.Slice(1, from, from+n)
			l.open = append(l.open, view)
			return view
		}
		q, k, v = part(0, p.heads), part(p.heads, p.kvHeads), part(p.heads+p.kvHeads, p.kvHeads)
	}
	if p.infinite {
		data := make([]float32, 3*p.kvHeads*p.d)
		data[0] = float32(math.Inf(1))
		v = keep(l, kompute.New[float32])(data, 3, p.kvHeads, p.d)
	}
	return q, k, v
}

// place sets where the tokens are, in their sequences and in pages.
func (o *pagedOperands[C]) place(l *layer[float32]) {
	tokens, pages := o.pages()
	var at [4][]int32 // positions, lengths, slots, sequences
	var table []int32
	for r := range 3 {
		length, sequence := max(1, o.length-7*r), int32(r)
		if o.meet && r == 1 {
			sequence = 0
		}
		slot := (3*((length-1)/tokens)+r)*tokens + (length-1)%tokens
		for i, n := range []int32{int32(length - 1), int32(length), int32(slot), sequence} {
			at[i] = append(at[i], n)
		}
		for i := range int32(pages) {
			table = append(table, 3*i+int32(r))
		}
		table = append(table, make([]int32, o.unused)...)
	}
	for i, to := range []**kompute.Tensor[int32]{&o.positions, &o.lengths, &o.slots, &o.sequences} {
		*to = first(l, keep(l, kompute.New[int32])(at[i], 3), o.rows)
	}
	o.table = keep(l, kompute.New[int32])(table, 3, pages+o.unused)
}

// run enqueues norms, rotation, the update of the pages, and attention.
func (o *pagedOperands[C]) run(s *kompute.Stream, apart bool) *kompute.Tensor[float32] {
	made := func(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		if o.joint {
			return x
		}
		return ops.Copy(s, x)
	}
	head := func(x *kompute.Tensor[float32], n, gain int) *kompute.Tensor[float32] {
		y := ops.RMSNorm(s, made(x), o.gains[gain], 1e-6)
		return ops.RoPE(s, y.Reshape(o.rows, n, 1, o.d), ops.RoPEParams{Base: 1e6}, ops.AtDevice(o.positions)).Reshape(o.rows, n, o.d)
	}
	q, k := head(o.q, o.heads, 0), head(o.k, o.kvHeads, 1)
	ops.PagedUpdate(s, o.keyPages, k, o.slots)
	ops.PagedUpdate(s, o.valuePages, made(o.v), o.slots)
	return ops.PagedSDPA(s, q, o.keyPages, o.valuePages, ops.PagedSDPAParams{
		Table: o.table, Sequences: o.sequences, Lengths: o.lengths, Scale: 0.1, Apart: apart,
	})
}

// attend returns what attention gives for the first rows of three tokens, and the bits of
// the pages, from a region, and the fusion passes that made its ops.
func attend[C ops.PageElement](t *testing.T, p pagedRows, dev *kompute.Device, rows int, apart bool) (out []float32, keys, values []C, passes map[string]bool) {
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(3, 1))}
	defer l.close()
	o := newPagedOperands[C](l, p, rows)
	s, err := dev.NewStream()
	require.NoError(t, err)
	var result *kompute.Tensor[float32]
	region, err := s.Capture(func(s *kompute.Stream) { result = kompute.Result(s, o.run(s, apart)) })
	require.NoError(t, err)
	described, err := region.Describe()
	require.NoError(t, err)
	passes = make(map[string]bool)
	for _, op := range described.Ops {
		passes[op.Pass] = true
	}
	require.NoError(t, region.Replay(t.Context()))
	before, err := result.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, region.Replay(t.Context())) // now the token is in its page already
	out, err = result.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, bitsOf(before), bitsOf(out))
	keys, err = o.keyPages.Read(t.Context())
	require.NoError(t, err)
	values, err = o.valuePages.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, result.Close())
	require.NoError(t, region.Close())
	require.NoError(t, s.Close())
	return out, keys, values, passes
}

// randomPages returns pages [P, H, L, D] of random numbers; of codes, with scales of at
// most 1/64.
func randomPages[C ops.PageElement, T kompute.Float](l *layer[T], shape ...int) *kompute.Tensor[C] {
	row := ops.PageRow(array.DTypeOf[C](), shape[3])
	data := make([]C, shape[0]*shape[1]*shape[2]*row)
	for i := range data {
		if p := any(&data[i]); !l.randomFloat(p) {
			*p.(*uint8) = uint8(l.rng.IntN(256))
		}
	}
	if codes, is := any(data).([]uint8); is {
		for i := 0; i < len(codes); i += 4 {
			if i%row >= shape[3] {
				binary.LittleEndian.PutUint32(codes[i:], math.Float32bits(l.rng.Float32()/64))
			}
		}
	}
	return keep(l, kompute.New[C])(data, shape[0], shape[1], shape[2], row)
}
