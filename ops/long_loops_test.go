package ops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// long makes the operands of calls whose loops have more rounds than some CPU drivers allow.
type long struct {
	t   *testing.T
	dev *kompute.Device
	s   *kompute.Stream
}

func longTensor[T kompute.Element](l *long, data []T, shape ...int) *kompute.Tensor[T] {
	x, err := kompute.New(l.dev, data, shape...)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { x.Close() })
	return x
}

func (l *long) full(v float32, shape ...int) *kompute.Tensor[float32] {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return longTensor(l, slices.Repeat([]float32{v}, n), shape...)
}

// ramp is values of heads of d elements whose first ones rise from 0 to 2, and so are 1 on average.
func (l *long) ramp(keys, d int, shape ...int) *kompute.Tensor[float32] {
	v := make([]float32, keys*d)
	for i := range keys {
		v[i*d] = 2 * float32(i) / float32(keys-1)
	}
	return longTensor(l, v, shape...)
}

// codes is a matrix of codes of 1, with scales of 1 and biases of 0, which is as if all of its elements were 1.
func (l *long) codes(rows, cols, group int) (w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[float32]) {
	return longTensor(l, slices.Repeat([]uint32{0x11111111}, rows*cols/8), rows, cols/8), l.full(1, rows, cols/group), l.full(0, rows, cols/group)
}

// product is x times such a matrix.
func (l *long) product(x *kompute.Tensor[float32], n, k int, o ops.Orientation) *kompute.Tensor[float32] {
	rows, cols := n, k
	if o == ops.AsStored {
		rows, cols = k, n
	}
	w, scales, biases := l.codes(rows, cols, 32)
	return ops.QuantizedMatMul(l.s, x, w, scales, biases, ops.Quantization{GroupSize: 32, Bits: 4}, o)
}

// Mesa's CPU driver ends the loops of a thread after 65,535 rounds of all of them together, and what they should have
// added is missing from the results. These calls would have more if they ran as shorter ones do. want is what the
// results' elements are, or the first of each of so many in a row.
func TestLoopsOfManyRounds(t *testing.T) {
	inf := float32(math.Inf(1))
	cases := []struct {
		name  string
		want  float32
		every int
		run   func(l *long) *kompute.Tensor[float32]
	}{
		{"MatMul, 1 row", 60000, 1, func(l *long) *kompute.Tensor[float32] {
			return ops.MatMul(l.s, l.full(1, 1, 60000), l.full(1, 60000, 16))
		}},
		{"MatMul, 17 rows", 120000, 1, func(l *long) *kompute.Tensor[float32] {
			return ops.MatMul(l.s, l.full(1, 17, 120000), l.full(1, 120000, 4))
		}},
		{"MatMul, 17 rows, transposed", 120000, 1, func(l *long) *kompute.Tensor[float32] {
			return ops.MatMul(l.s, l.full(1, 17, 120000), l.full(1, 4, 120000).Transpose(1, 0))
		}},
		{"MatMul, 8 rows, transposed", 400000, 1, func(l *long) *kompute.Tensor[float32] {
			return ops.MatMul(l.s, l.full(1, 8, 400000), l.full(1, 2, 400000).Transpose(1, 0))
		}},
		{"QuantizedMatMul", 131072, 1, func(l *long) *kompute.Tensor[float32] {
			return l.product(l.full(1, 1, 131072), 32, 131072, ops.AsStored)
		}},
		{"QuantizedMatMul, transposed", 786432, 1, func(l *long) *kompute.Tensor[float32] {
			return l.product(l.full(1, 1, 786432), 2, 786432, ops.Transposed)
		}},
		{"QuantizedMatMul, an infinity", inf, 1, func(l *long) *kompute.Tensor[float32] {
			x := make([]float32, 16384)
			x[len(x)-1] = inf
			return l.product(longTensor(l, x, 1, len(x)), 1024, len(x), ops.Transposed)
		}},
		{"QuantizedMatMul, scales without biases", 425984, 1, func(l *long) *kompute.Tensor[float32] {
			const k, n, one = 425984, 2, 0x22222222
			w, scales := slices.Repeat([]uint32{one}, n*k/8), slices.Repeat([]uint8{127}, n*k/32)
			return ops.QuantizedMatMul[float32, uint8](l.s, l.full(1, 8, k), longTensor(l, w, n, k/8), longTensor(l, scales, n, k/32), nil,
				ops.MXFP4, ops.Transposed)
		}},
		{"SDPA, 32 queries", 1, 128, func(l *long) *kompute.Tensor[float32] {
			const keys, d = 30000, 128
			return ops.SDPA(l.s, l.full(0, 1, 1, 32, d), l.full(0, 1, 1, keys, d), l.ramp(keys, d, 1, 1, keys, d), ops.SDPAParams[float32]{})
		}},
		{"SDPA, infinities", inf, 4, func(l *long) *kompute.Tensor[float32] {
			const keys, d = 5000, 4
			v := make([]float32, keys*d)
			for i := range keys - 1 {
				v[(i+1)*d] = inf
			}
			return ops.SDPA(l.s, l.full(0, 1, 1, 16, d), l.full(0, 1, 1, keys, d), longTensor(l, v, 1, 1, keys, d), ops.SDPAParams[float32]{})
		}},
		{"PagedSDPA", 1, 64, func(l *long) *kompute.Tensor[float32] {
			const tokens, page, d = 112000, 16, 64
			table := make([]int32, tokens/page)
			for i := range table {
				table[i] = int32(i)
			}
			return ops.PagedSDPA(l.s, l.full(0, 1, 1, d), l.full(0, len(table), 1, page, d), l.ramp(tokens, d, len(table), 1, page, d), ops.PagedSDPAParams{
				Table: longTensor(l, table, 1, len(table)), Sequences: longTensor(l, []int32{0}, 1), Lengths: longTensor(l, []int32{tokens}, 1)})
		}},
		{"CumSum", 2000000, 1, func(l *long) *kompute.Tensor[float32] {
			sums := ops.CumSum(l.s, l.full(1, 2000000), 0)
			return ops.Slice(l.s, sums, []int{1}, ops.At(1999999))
		}},
	}
	eachLoose(t, func(t *testing.T, dev *kompute.Device) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				s, err := dev.NewStream()
				require.NoError(t, err)
				defer s.Close()
				y := c.run(&long{t, dev, s})
				defer y.Close()
				got, err := y.Read(t.Context())
				require.NoError(t, err)
				for i := 0; i < len(got); i += c.every {
					same := got[i] == c.want || math.Abs(float64(got[i]/c.want)-1) < 1e-4
					require.True(t, same, "element %d is %v, not %v", i, got[i], c.want)
				}
			})
		}
	})
}

// eachLoose calls test with every device, opened so that ops may run on the CPU instead.
func eachLoose(t *testing.T, test func(t *testing.T, dev *kompute.Device)) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			dev, err := kompute.Open(spec)
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			test(t, dev)
		})
	}
}

// Draws are alike on every device however long rows are.
func TestDrawsFromLongRows(t *testing.T) {
	rng, logits := rand.New(rand.NewPCG(1, 2)), make([]float32, 2500000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	words := sample.Params{Temperature: 1, TopP: 0.9, Seed: 3}.Encode(0)
	var want []uint32
	eachLoose(t, func(t *testing.T, dev *kompute.Device) {
		s, err := dev.NewStream()
		require.NoError(t, err)
		defer s.Close()
		l := &long{t, dev, s}
		y := ops.Sample(s, longTensor(l, logits, 1, len(logits)), longTensor(l, words, len(words)), ops.At(4))
		defer y.Close()
		got, err := y.Read(t.Context())
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	})
}
