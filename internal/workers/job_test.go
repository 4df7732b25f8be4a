package workers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPiecesAtATime(t *testing.T) {
	cheap, dear := Part{Units: 1, Cost: 100}, Part{Units: 1, Cost: 2000}
	schedule := newJob([]step{newStep(Step{cheap}), newStep(Step{cheap, dear})}, 2)
	schedule.long = true
	for _, c := range []struct {
		name             string
		long             bool
		turn             uint64
		shares           int
		rest, all, wants int
	}{
		{"a loop", false, 0, 2, 32, 32, 8},
		{"the last of a loop", false, 0, 2, 3, 32, 1},
		{"small pieces of two workers", true, 2, 2, 64, 64, 64},
		{"what another has left of them", true, 2, 1, 7, 64, 7},
		{"too many of them to take all", true, 2, 2, 100, 100, 50},
		{"larger ones", true, 3, 2, 64, 64, 32},
		{"three workers", true, 2, 3, 15, 15, 8},
		{"not many at a time", true, 2, 16, 64, 64, 8},
		{"but of a large share", true, 2, 4, 400, 400, 100},
		{"the last one", true, 3, 16, 1, 64, 1},
	} {
		schedule.long = c.long
		require.Equal(t, c.wants, schedule.some(c.rest, c.all, &turnOf{turn: c.turn, shares: c.shares}), c.name)
	}
}

// A worker that waits learns whether there was anything to help with: else it would try again at once.
func TestAssistTellsWhetherItDidAnything(t *testing.T) {
	j := newJob([]step{newStep(Step{{Units: 8, Cost: 1e4, Run: func(*Context, int, int) error { return nil }}})}, 3)
	j.wanted.Store(2)
	j.end = 3
	j.open(1)
	turn, ok := j.look()
	require.True(t, ok)
	waiting := newJob(nil, 1)
	a, b := j.take(0, &turn) // and does not finish it
	require.Less(t, a, b)
	require.True(t, j.assist(2, waiting, 0), "the rest")
	require.False(t, j.assist(2, waiting, 0), "all pieces are taken")
	j.done(&turn, 0, b-a)
	require.True(t, j.assist(2, waiting, 0), "the next turn")
	require.False(t, j.assist(2, waiting, 0), "the job is over")
}
