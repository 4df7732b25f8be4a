package ops_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// rowsLayer is a layer for several tokens at once, each of a sequence of its own,
// whose keys and values lie in pages.
type rowsLayer[T kompute.Float, C ops.PageElement] struct {
	*layer[T]
	rows                                         int
	joint                                        weights // of queries, keys and values; for many rows
	keyPages, valuePages                         *kompute.Tensor[C]
	positions, slots, lengths, sequences, tables *kompute.Tensor[int32]
}

// pageTokens is how many tokens a page of the test has.
const pageTokens = 4

func newRowsLayer[T kompute.Float, C ops.PageElement](l *layer[T], rows int) *rowsLayer[T, C] {
	l.fill()
	p := &rowsLayer[T, C]{layer: l, rows: rows}
	p.x = l.floats(1, rows, l.hidden)
	p.joint = l.matrix((l.heads+2*l.kvHeads)*l.d, l.hidden)
	p.keyPages = randomPages[C](l, 2*rows, l.kvHeads, pageTokens, l.d)
	p.valuePages = randomPages[C](l, 2*rows, l.kvHeads, pageTokens, l.d)
	at := make([][]int32, 5) // positions, slots, lengths, sequences, tables
	for r := range rows {
		position := l.rng.IntN(2 * pageTokens)
		page := 2*r + position/pageTokens
		slot, length := page*pageTokens+position%pageTokens, position+1
		if r == 3 { // which is not used
			slot, length = -1, 0
		}
		for i, v := range []int{position, slot, length, r} {
			at[i] = append(at[i], int32(v))
		}
		at[4] = append(at[4], int32(2*r), int32(2*r+1))
	}
	vector := func(i int, shape ...int) *kompute.Tensor[int32] { return keep(l, kompute.New[int32])(at[i], shape...) }
	p.positions, p.slots, p.lengths, p.sequences = vector(0, rows), vector(1, rows), vector(2, rows), vector(3, rows)
	p.tables = vector(4, rows, 2)
	return p
}

// turned returns queries or keys, normalised and rotated.
func (p *rowsLayer[T, C]) turned(s *kompute.Stream, y *kompute.Tensor[T], heads, gain int) *kompute.Tensor[T] {
	y = p.norm(s, y.Reshape(1, p.rows, heads, p.d), gain, p.headNorms)
	y = ops.RoPE(s, y.Reshape(p.rows, heads, 1, p.d), ops.RoPEParams{Traditional: p.traditional, Freqs: p.wavelengths}, ops.AtDevice(p.positions))
	return y.Reshape(p.rows, heads, p.d)
}

// manyRows is the number of rows for which one product gives queries, keys and values.
const manyRows = 17

func (p *rowsLayer[T, C]) project(s *kompute.Stream, x *kompute.Tensor[T]) (q, k, v *kompute.Tensor[T]) {
	if p.rows < manyRows {
		return p.product(s, x, 0), p.product(s, x, 1), p.product(s, x, 2)
	}
	all := ops.QuantizedMatMul(s, x, p.joint.w, p.joint.scales, p.joint.biases, p.q, ops.Transposed)
	all = all.Reshape(1, p.rows, p.heads+2*p.kvHeads, p.d)
	return all.Slice(2, 0, p.heads), all.Slice(2, p.heads, p.heads+p.kvHeads), all.Slice(2, p.heads+p.kvHeads, all.Dim(2))
}

func (p *rowsLayer[T, C]) step(s *kompute.Stream) {
	n := p.norm(s, p.x, 0, p.norms)
	q, k, v := p.project(s, n)
	q, k = p.turned(s, q, p.heads, 2), p.turned(s, k, p.kvHeads, 3)
	ops.PagedUpdate(s, p.keyPages, k, p.slots)
	ops.PagedUpdate(s, p.valuePages, v.Reshape(p.rows, p.kvHeads, p.d), p.slots)
	a := ops.PagedSDPA(s, q, p.keyPages, p.valuePages, ops.PagedSDPAParams{Table: p.tables, Sequences: p.sequences, Lengths: p.lengths, Scale: 0.125})
	x := p.add(s, p.x, p.product(s, a.Reshape(1, p.rows, -1), 3))
	n = p.norm(s, x, 1, p.norms)
	x = p.add(s, x, p.product(s, ops.SiLUMul(s, p.product(s, n, 4), p.product(s, n, 5)), 6))
	p.out = kompute.Result(s, ops.Copy(s, x))
}

func (p *rowsLayer[T, C]) state() (pages [][]C, out []T) {
	for _, t := range []*kompute.Tensor[C]{p.keyPages, p.valuePages} {
		data, err := t.Read(context.Background())
		require.NoError(p.t, err)
		pages = append(pages, data)
	}
	out, err := p.out.Read(context.Background())
	require.NoError(p.t, err)
	return pages, out
}

// A region over several rows gives what its ops give one by one: on the CPU to the
// bit, elsewhere to rounding.
func fusedRowsEqualEager[T kompute.Float, C ops.PageElement](r *rapid.T, dev *kompute.Device) {
	seed, rows := rapid.Uint64().Draw(r, "seed"), rapid.SampledFrom([]int{1, 2, 5, 8, manyRows}).Draw(r, "rows")
	one := newLayer[T](r, dev, seed)
	other := *one
	other.rng = rand.New(rand.NewPCG(seed, 1))
	eager, region := newRowsLayer[T, C](one, rows), newRowsLayer[T, C](&other, rows)
	defer eager.close()
	defer region.close()
	s, err := dev.NewStream()
	require.NoError(r, err)
	defer func() { require.NoError(r, s.Close()) }()

	captured, err := s.Capture(func(s *kompute.Stream) { region.step(s) })
	require.NoError(r, err)
	described, err := captured.Describe()
	require.NoError(r, err)
	passes, norms := make(map[string]bool), 0
	for _, op := range described.Ops {
		passes[op.Pass] = true
		if op.Name == "rms_norm" {
			norms++
		}
	}
	require.LessOrEqual(r, norms, 2, "those of heads stay apart:\n%v", described)
	require.True(r, passes["paged_heads"] || passes["paged_step"] || passes["qkv_heads"], described)
	if rows == 1 && (dev.Backend() == "cpu" || one.d%4 == 0 && os.Getenv("KOMPUTE_GO_FUSION_ON_CPU") != "") {
		require.True(r, passes["paged_step"], described)
	}
	if dev.Backend() == "cpu" {
		for _, name := range []string{"gate_up", "qkv", "residual"} {
			if name == "qkv" && rows >= manyRows { // one product
				continue
			}
			require.True(r, passes[name] || passes["norm_projection"], "%s did not find its group:\n%v", name, described)
		}
	}
	require.NoError(r, captured.Replay(context.Background()))
	pages, got := region.state()
	sc := s.Scope()
	eager.step(s)
	wantPages, want := eager.state()
	if dev.Backend() == "cpu" {
		require.Equal(r, want, got)
		require.Equal(r, wantPages, pages)
	} else {
		requireClose(r, append(any(wantPages).([][]T), want), append(any(pages).([][]T), got)) // with pages of that type
	}
	sc.Close()
	require.NoError(r, region.out.Close())
	require.NoError(r, captured.Close())
}

func TestFusedRowsEqualEagerOps(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value.String()
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		if dev.Backend() != "cpu" { // whose drivers compile for seconds
			require.NoError(t, flag.Set("rapid.checks", "2"))
			defer func() { require.NoError(t, flag.Set("rapid.checks", checks)) }()
		}
		t.Run("float32", func(t *testing.T) { rapid.Check(t, func(r *rapid.T) { fusedRowsEqualEager[float32, float32](r, dev) }) })
		if dev.Backend() == "cpu" {
			t.Run("bfloat16", func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) { fusedRowsEqualEager[array.BF16, array.BF16](r, dev) })
			})
			t.Run("codes", func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) { fusedRowsEqualEager[array.BF16, uint8](r, dev) })
			})
		}
		require.Zero(t, dev.Stats().LiveTensors)
	})
}

// Products in the modes without biases are fused as others are, for one row and for
// several, with the kernels of a GPU.
func TestFusedModesEqualEagerOps(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1))}
		defer l.close()
		s, err := dev.NewStream()
		require.NoError(t, err)
		sc := s.Scope()
		for _, q := range testmodel.Some(dev, ops.NVFP4, ops.MXFP4, ops.MXFP8) {
			w, scales, _ := ops.Quantize[uint8](s, l.floats(40, 96), q)
			for _, rows := range []int{1, 5} {
				x, residual := l.floats(1, rows, 96), l.floats(1, rows, 40)
				sum := func(s *kompute.Stream) *kompute.Tensor[float32] {
					return ops.Add(s, residual, ops.QuantizedMatMul(s, x, w, scales, nil, q, ops.Transposed))
				}
				var out *kompute.Tensor[float32]
				region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, sum(s)) })
				require.NoError(t, err)
				require.EqualValues(t, 1, region.Stats().FusedOps, "%v: %v", q, region)
				require.NoError(t, region.Replay(t.Context()))
				got, err := out.Read(t.Context())
				require.NoError(t, err)
				want, err := sum(s).Read(t.Context())
				require.NoError(t, err)
				requireClose(t, [][]float32{want}, [][]float32{got})
				require.NoError(t, region.Close())
				require.NoError(t, out.Close())
			}
		}
		sc.Close()
		require.NoError(t, s.Close())
	})
}
