package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Products are counted by rows, eagerly and by replays, and stay counted when their stream is closed.
func TestCallsAreCountedByRows(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x := tensor(t, d, upTo(4))
		product := func(s *Stream, rows int) {
			out := Output[float32](s, 4)
			op := makeOp("neg", In(x.View()), Out(out.View()))
			op.Rows = rows
			s.Enqueue(op)
			require.NoError(t, out.Close())
		}
		s, err := d.NewStream()
		require.NoError(t, err)
		for _, rows := range []int{1, 2, 8, 9, 16, 17, 4096, 0} { // 0: no product
			product(s, rows)
		}
		name := makeOp("neg").Name
		want := RowCalls{One: 1, UpTo8: 2, UpTo16: 2, More: 2}
		require.Equal(t, map[string]RowCalls{name: want}, s.Stats().CallsByRows)

		r, err := s.Capture(func(s *Stream) { product(s, 1); product(s, 3) })
		require.NoError(t, err)
		require.Equal(t, want, s.Stats().CallsByRows[name], "captured, not run")
		require.NoError(t, r.ReplayN(t.Context(), 5))
		want.One, want.UpTo8 = want.One+5, want.UpTo8+5
		require.Equal(t, want, s.Stats().CallsByRows[name])
		require.Equal(t, want, d.Stats().CallsByRows[name])
		require.NoError(t, r.Close())
		require.NoError(t, s.Close())
		require.Equal(t, want, d.Stats().CallsByRows[name])
	})
}
