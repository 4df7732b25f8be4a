package fallback

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages without tokens have no keys, so that rows are zeros.
func TestPagesWithoutTokens(t *testing.T) {
	q, out := must(t, []float32{1, 2, 3, 4}, 2, 1, 2), must(t, []float32{7, 7, 7, 7}, 2, 1, 2)
	pages, table := must(t, []float32{}, 3, 1, 0, 2), must(t, []int32{0, 2}, 1, 2)
	sequences, lengths := must(t, []int32{0, 0}, 2), must(t, []int32{1, 5}, 2)
	require.NoError(t, PagedSDPA(q, pages, pages, table, sequences, lengths, out, 1))
	requireSame(t, make([]float64, 4), out)
	none := must(t, []float32{}, 2, 0, 2)
	pages = must(t, make([]float32, 4), 1, 1, 2, 2)
	require.NoError(t, PagedSDPA(none, pages, pages, table, sequences, lengths, none, 1))
	p := pagedAttention{q: &none, keys: &pages, values: &pages, table: &table, sequences: &sequences, lengths: &lengths, out: &none}
	require.NotPanics(t, func() { p.units(nil, 0, 2) }, "as fused ops call it, without query heads")
}
