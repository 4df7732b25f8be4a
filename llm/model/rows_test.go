package model_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// token is a row of a pass: a token of a sequence, or no token at all.
type token struct {
	id             uint32
	sequence, at   int
	unused, logits bool
}

const rowPageTokens = 3

// rowTable gives two sequences their pages, mixed.
var rowTable = []int32{4, 1, 6, 0, 5, 2}

// runRows runs one pass and returns the logits of the rows that ask for them.
func runRows(t *testing.T, f *testmodel.Fixture, pool model.Pool, rows []token) [][]float32 {
	t.Helper()
	s := f.Stream
	sc := s.Scope()
	defer sc.Close()
	var ids []uint32
	var positions, lengths, slots, sequences, wanted []int32
	for i, r := range rows {
		ids = append(ids, r.id)
		sequences = append(sequences, int32(r.sequence))
		positions = append(positions, int32(r.at))
		length, slot := int32(r.at+1), rowTable[r.sequence*3+r.at/rowPageTokens]*rowPageTokens+int32(r.at%rowPageTokens)
		if r.unused {
			length, slot = 0, -1
		}
		lengths, slots = append(lengths, length), append(slots, slot)
		if r.logits {
			wanted = append(wanted, int32(i))
		}
	}
	n := len(rows)
	logits := f.Model.ForwardRows(s, model.RowsPass{
		Tokens: kompute.Constant(s, ids, 1, n), Pool: pool, Logits: kompute.Constant(s, wanted, len(wanted)),
		At: &nn.Rows{
			Positions: kompute.Constant(s, positions, n), Lengths: kompute.Constant(s, lengths, n), Slots: kompute.Constant(s, slots, n),
			Sequences: kompute.Constant(s, sequences, n), Table: kompute.Constant(s, rowTable, 2, 3),
		},
	})
	all, err := logits.Read(t.Context())
	require.NoError(t, err)
	var out [][]float32
	for v := len(all) / len(wanted); len(all) > 0; all = all[v:] {
		out = append(out, all[:v])
	}
	return out
}

// With tokens of two sequences in one pass, prompts in chunks, and unused rows, the
// logits are those of each sequence alone.
func TestForwardRows(t *testing.T) {
	spec := testmodel.Small()
	c, weights := spec.Open(t)
	a, b := []uint32{5, 17, 94, 0, 3, 41, 8}, []uint32{60, 2, 2, 33, 71}
	wantA, wantB := spec.Logits(weights, a), spec.Logits(weights, b)
	narrow := func(row []float64) []float32 {
		out := make([]float32, len(row))
		for i, v := range row {
			out[i] = float32(v)
		}
		return out
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, 8)
		defer f.Close()
		for dtype, tolerance := range map[kompute.DType]float64{0: 1e-4, kompute.DTypeFloat16: 3e-3, kompute.DTypeBFloat16: 3e-2, kompute.DTypeUint8: 3e-2} {
			pool, err := f.Model.NewPool(7, rowPageTokens, dtype)
			require.NoError(t, err)
			of := func(ids []uint32, sequence, at int) token {
				return token{id: ids[at], sequence: sequence, at: at, logits: true}
			}
			check := func(want [][]float64, at int, got []float32) {
				t.Helper()
				testmodel.RequireClose(t, narrow(want[at]), got, tolerance, fmt.Sprintf("logits with pages of type %v", dtype))
			}
			// A prompt of five tokens; one of two beside the sixth; then one each, with an unused row between.
			got := runRows(t, f, pool, []token{of(a, 0, 0), of(a, 0, 1), of(a, 0, 2), of(a, 0, 3), of(a, 0, 4)})
			for i := range got {
				check(wantA, i, got[i])
			}
			got = runRows(t, f, pool, []token{of(b, 1, 0), of(b, 1, 1), of(a, 0, 5)})
			check(wantB, 0, got[0])
			check(wantB, 1, got[1])
			check(wantA, 5, got[2])
			got = runRows(t, f, pool, []token{of(a, 0, 6), {unused: true}, of(b, 1, 2)})
			check(wantA, 6, got[0])
			check(wantB, 2, got[1])
			got = runRows(t, f, pool, []token{of(b, 1, 3), of(b, 1, 4)})
			check(wantB, 4, got[1])
			require.NoError(t, pool.Close())
		}
	})
}

// An invalid pass is an error of the stream that names the reason.
func TestForwardRowsRefuses(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	f := testmodel.NewFixture(t, d, c, model.Options{}, 8)
	defer f.Close()
	for _, n := range [][2]int{{0, 4}, {4, 0}, {1 << 20, 1 << 20}} {
		_, err := f.Model.NewPool(n[0], n[1], 0)
		require.ErrorIs(t, err, nn.ErrCache)
	}
	require.Equal(t, 2*f.Model.PageBytes(16, kompute.DTypeFloat16), f.Model.PageBytes(16, 0))
	_, err = f.Model.NewPool(2, 4, kompute.DTypeInt32)
	require.ErrorIs(t, err, kompute.ErrDType)
	tokens, err := kompute.New(d, []uint32{1}, 1, 1)
	require.NoError(t, err)
	defer tokens.Close()
	closed, err := f.Model.NewPool(2, 4, 0)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	for want, p := range map[error]model.RowsPass{
		kompute.ErrShape: {Pool: closed, At: &nn.Rows{}},
		nn.ErrCache:      {Tokens: tokens, Pool: closed, At: &nn.Rows{}},
	} {
		s, err := d.NewStream()
		require.NoError(t, err)
		require.ErrorIs(t, f.Model.ForwardRows(s, p).Err(), want)
		require.ErrorIs(t, s.Close(), want)
	}
}
