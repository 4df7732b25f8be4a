package ops_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
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

// attend returns what attention gives for the first rows of three tokens, and the bits of
// the pages, from a region.
func attend[C ops.PageElement](t *testing.T, p pagedRows, dev *kompute.Device, rows int, apart bool) (out []float32, keys, values []C, passes map[string]bool) {
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(3, 1))}
	defer l.close()
	q, k, v := l.floats(3, p.heads, p.d), l.floats(3, p.kvHeads, p.d), l.floats(3, p.kvHeads, p.d)
	made := func(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] { return ops.Copy(s, x) }
	if p.joint {
		all := l.floats(3, p.heads+2*p.kvHeads, p.d)
		part := func(from, n int) *kompute.Tensor[float32] {
			view := all.Slice(1, from, from+n)
			l.open = append(l.open, view)
			return view
		}
		q, k, v = part(0, p.heads), part(p.heads, p.kvHeads), part(p.heads+p.kvHeads, p.kvHeads)
		made = func(_ *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] { return x }
	}
	if p.infinite {
		data := make([]float32, 3*p.kvHeads*p.d)
		data[0] = float32(math.Inf(1))
		v = keep(l, kompute.New[float32])(data, 3, p.kvHeads, p.d)
	}
	gains := []*kompute.Tensor[float32]{l.floats(p.d), l.floats(p.d)}
	tokens, pages := p.pages()
	keyPages := randomPages[C](l, 3*pages, p.kvHeads, tokens, p.d)
	valuePages := randomPages[C](l, 3*pages, p.kvHeads, tokens, p.d)
	var at [4][]int32 // positions, lengths, slots, sequences
	var table []int32
	for r := range 3 {
		length, sequence := max(1, p.length-7*r), int32(r)
		if p.meet && r == 1 {
			sequence = 0
		}
		place := (3*((length-1)/tokens)+r)*tokens + (length-1)%tokens
		for i, n := range []int32{int32(length - 1), int32(length), int32(place), sequence} {
			at[i] = append(at[i], n)
		}
		for i := range int32(pages) {
			table = append(table, 3*i+int32(r))
		}
		table = append(table, make([]int32, p.unused)...)
	}
	ints := func(data []int32, shape ...int) *kompute.Tensor[int32] {
		return keep(l, kompute.New[int32])(data, shape...)
	}
	positions, lengths, slots, sequences := ints(at[0], 3), ints(at[1], 3), ints(at[2], 3), ints(at[3], 3)
	tables := ints(table, 3, pages+p.unused)
	q, k, v = first(l, q, rows), first(l, k, rows), first(l, v, rows)
	positions, lengths, slots, sequences = first(l, positions, rows), first(l, lengths, rows), first(l, slots, rows), first(l, sequences, rows)
	s, err := dev.NewStream()
	require.NoError(t, err)
	var result *kompute.Tensor[float32]
	region, err := s.Capture(func(s *kompute.Stream) {
		head := func(x *kompute.Tensor[float32], n, gain int) *kompute.Tensor[float32] {
			y := ops.RMSNorm(s, made(s, x), gains[gain], 1e-6)
			return ops.RoPE(s, y.Reshape(rows, n, 1, p.d), ops.RoPEParams{Base: 1e6}, ops.AtDevice(positions)).Reshape(rows, n, p.d)
		}
		rq, rk := head(q, p.heads, 0), head(k, p.kvHeads, 1)
		ops.PagedUpdate(s, keyPages, rk, slots)
		ops.PagedUpdate(s, valuePages, made(s, v), slots)
		result = kompute.Result(s, ops.PagedSDPA(s, rq, keyPages, valuePages, ops.PagedSDPAParams{
			Table: tables, Sequences: sequences, Lengths: lengths, Scale: 0.1, Apart: apart,
		}))
	})
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
	keys, err = keyPages.Read(t.Context())
	require.NoError(t, err)
	values, err = valuePages.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, result.Close())
	require.NoError(t, region.Close())
	require.NoError(t, s.Close())
	return out, keys, values, passes
}

// A token alone, and tokens apart, go to attention over pages by one op, and tokens among
// others by several. They have the same bits, however large the table is.
func TestTokenAloneHasItsBitsAmongOthers(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cases := []pagedRows{
		{heads: 8, kvHeads: 2, d: 64, length: 129},
		{heads: 4, kvHeads: 2, d: 128, length: 1},
		{heads: 4, kvHeads: 2, d: 128, length: 16},
		{heads: 8, kvHeads: 1, d: 64, length: 40, joint: true},
		{heads: 4, kvHeads: 1, d: 128, length: 310},
		{heads: 4, kvHeads: 2, d: 64, length: 33},
		{heads: 2, kvHeads: 2, d: 128, length: 40},
		{heads: 3, kvHeads: 1, d: 96, length: 300},
	}
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, p := range testmodel.Some(dev, cases...) {
			p.aloneAsAmongOthers(t, dev)
		}
		aloneAsAmongOthers[float32](t, cases[3], dev)
	})
	// The bits are also the same without subgroup operations, and without elements of 16 bits.
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, fn := range testmodel.Some(dev, aloneAsAmongOthers[kompute.BFloat16], aloneAsAmongOthers[uint8]) {
			fn(t, cases[3], dev)
		}
	}, kompute.WithMaskedFeatures("subgroup", "storage16"))
}

// The token of a session, whose keys are in one page and divided into more ranges, attends as on the CPU.
func TestTokenOfASession(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, length := range testmodel.Some(dev, 1040, 128, 257, 700, 129, 256) {
			for _, heads := range []int{4, 8} { // up to 2 or 4 query heads to a workgroup
				p := pagedRows{heads: heads, kvHeads: 2, d: 64, length: length, whole: true}
				sessionAsOnCPU[kompute.BFloat16](t, p, dev, cpu)
				sessionAsOnCPU[uint8](t, p, dev, cpu)
			}
		}
	})
}

func sessionAsOnCPU[C ops.PageElement](t *testing.T, p pagedRows, dev, cpu *kompute.Device) {
	want, _, _, _ := attend[C](t, p, cpu, 1, false)
	got, _, _, passes := attend[C](t, p, dev, 1, false)
	_, codes := any(*new(C)).(uint8)
	requireStep(t, dev, codes, passes)
	for i := range want {
		require.InDelta(t, want[i], got[i], 2e-3, "%d tokens, element %d", p.length, i)
	}
}

// Tokens of one sequence that are said to be apart give NaNs, not numbers that depend on
// which of them came first.
func TestTokensOfOneSequenceAreNotApart(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		notApart[float32](t, dev)
		notApart[uint8](t, dev)
	})
}

func notApart[C ops.PageElement](t *testing.T, dev *kompute.Device) {
	p := pagedRows{heads: 4, kvHeads: 2, d: 128, length: 16, meet: true}
	want, _, _, _ := attend[C](t, p, dev, 3, false)
	got, _, _, passes := attend[C](t, p, dev, 3, true)
	_, codes := any(*new(C)).(uint8)
	requireStep(t, dev, codes, passes)
	row := len(got) / 3
	if passes["paged_step"] {
		for _, v := range got[:2*row] {
			require.True(t, math.IsNaN(float64(v)))
		}
	} else {
		require.Equal(t, want[:2*row], got[:2*row])
	}
	require.Equal(t, want[2*row:], got[2*row:])
}

// Where a new token is the last key of a batch that is not full, its infinite value counts
// once, and makes no NaN of a sum.
func TestTokenWithAnInfiniteValue(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		p := pagedRows{heads: 4, kvHeads: 2, d: 64, length: 21, infinite: true}
		got, _, _, passes := attend[float32](t, p, dev, 1, false)
		require.True(t, passes["paged_step"], passes)
		for i, v := range got {
			if of := i / p.d; i%p.d == 0 && of < p.heads/p.kvHeads {
				require.True(t, math.IsInf(float64(v), 1), "head %d: %v", of, v)
			} else {
				require.Less(t, math.Abs(float64(v)), 100.0, "element %d", i)
			}
		}
	})
}

// randomPages returns pages [P, H, L, D] of random numbers; of codes, with scales of at
// most 1/64.
func randomPages[C ops.PageElement, T kompute.Float](l *layer[T], shape ...int) *kompute.Tensor[C] {
	row := ops.PageRow(array.DTypeOf[C](), shape[3])
	data := make([]C, shape[0]*shape[1]*shape[2]*row)
	for i := range data {
		v := float32(l.rng.NormFloat64())
		switch p := any(&data[i]).(type) {
		case *float32:
			*p = v
		case *array.F16:
			*p = array.F16FromFloat32(v)
		case *array.BF16:
			*p = array.BF16FromFloat32(v)
		case *uint8:
			*p = uint8(l.rng.IntN(256))
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

func (p pagedRows) aloneAsAmongOthers(t *testing.T, dev *kompute.Device) {
	aloneAsAmongOthers[kompute.BFloat16](t, p, dev)
	aloneAsAmongOthers[uint8](t, p, dev)
}

func aloneAsAmongOthers[C ops.PageElement](t *testing.T, p pagedRows, dev *kompute.Device) {
	t.Run(fmt.Sprintf("%+v/%T", p, *new(C)), func(t *testing.T) {
		alone, aloneKeys, aloneValues, passes := attend[C](t, p, dev, 1, false)
		_, codes := any(*new(C)).(uint8)
		requireStep(t, dev, codes, passes)
		others, keys, values, passes := attend[C](t, p, dev, 3, false)
		require.True(t, passes["paged_heads"] && !passes["paged_step"], passes)
		require.Equal(t, others[:len(alone)], alone)
		p.unused = 100 // a larger table makes no difference
		apart, apartKeys, apartValues, passes := attend[C](t, p, dev, 3, true)
		requireStep(t, dev, codes, passes)
		require.Equal(t, others, apart)
		require.Equal(t, keys, apartKeys)
		require.Equal(t, values, apartValues)
		// The pages of the first sequence: every third one.
		_, pages := p.pages()
		size := len(keys) / (3 * pages)
		for i := 0; i < len(keys); i += 3 * size {
			require.Equal(t, keys[i:i+size], aloneKeys[i:i+size])
			require.Equal(t, values[i:i+size], aloneValues[i:i+size])
		}
		if codes, is := any(keys).([]uint8); is && dev.Backend() != "cpu" {
			requireCodesOfCPU(t, p, others, codes, any(values).([]uint8))
		}
	})
}

func bitsOf(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

// requireStep requires that tokens that see no other one take one op. With codes, only some GPUs have it, for some heads.
func requireStep(t *testing.T, dev *kompute.Device, codes bool, passes map[string]bool) {
	if dev.Backend() == "cpu" || !codes {
		require.True(t, passes["paged_step"], passes)
	} else if dev.Info().Type == "cpu" {
		require.False(t, passes["paged_step"], passes)
	}
}

// requireCodesOfCPU compares what a device made of three tokens with what the CPU makes
// of them: a number that lies between two codes may have become either.
func requireCodesOfCPU(t *testing.T, p pagedRows, out []float32, keys, values []uint8) {
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	want, wantKeys, wantValues, _ := attend[uint8](t, p, cpu, 3, false)
	row := ops.PageRow(kompute.DTypeUint8, p.d)
	for _, pair := range [][2][]uint8{{wantKeys, keys}, {wantValues, values}} {
		want, got := pair[0], pair[1]
		for i := range want {
			if i%row < p.d {
				require.InDelta(t, want[i], got[i], 1, "code %d", i)
			} else if i%4 == 0 {
				scale := func(b []uint8) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))) }
				require.InEpsilon(t, scale(want), scale(got), 1e-5, "scale at %d", i)
			}
		}
	}
	for i := range want {
		require.InDelta(t, want[i], out[i], 0.05)
	}
}
