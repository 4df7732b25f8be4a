package workers

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// window returns an observation of a window that ends at that many milliseconds.
func window(at int, workers int, waitedShare float64, switches int64) *observation {
	return &observation{
		at: time.Duration(at) * time.Millisecond, elapsed: crowdWindow, workers: workers, switches: switches,
		waited: time.Duration(waitedShare * float64(crowdWindow) * float64(workers)),
	}
}

func TestCrowdLimit(t *testing.T) {
	var none crowdLimit
	require.Equal(t, none, none.next(window(20, 2, 0.5, 0), 2), "waits, but nobody interrupts")
	require.Equal(t, none, none.next(window(20, 2, 0.1, 50), 2), "interruptions, but no waits")
	require.Equal(t, none, none.next(window(20, 1, 0.9, 50), 2), "one worker waits for nobody")
	require.Equal(t, none, none.next(window(20, 16, 0.5, 2), 16), "more waits than interruptions explain")
	require.Equal(t, 14, none.next(window(20, 16, 0.5, 9), 16).workers)

	l := none.next(window(20, 2, 0.5, 9), 2)
	require.Equal(t, 1, l.workers)
	require.Equal(t, 1, l.next(window(100, 1, 0, 9), 2).workers, "not yet")
	l = l.next(window(120, 1, 0, 9), 2)
	require.Zero(t, l.workers, "tried again")
	again := l.next(window(140, 2, 0.5, 9), 2)
	require.Equal(t, 1, again.workers)
	require.Equal(t, 2*leastPause, again.pause, "that was too early")
	further := again.next(window(160, 2, 0.5, 9), 2)
	require.Equal(t, 2*leastPause, further.pause, "lowered further, but not raised before")
	later := l.next(window(1500, 2, 0.5, 9), 2)
	require.Equal(t, leastPause, later.pause, "it went well for a while")
}

// liftCrowdLimit lets schedules have as many workers as there are processors for a window, even if other programs
// want the processors.
func liftCrowdLimit() {
	crowd.mu.Lock()
	defer crowd.mu.Unlock()
	crowd.now, crowd.began, crowd.switches = crowdLimit{}, now(), involuntarySwitches()
	crowd.limit.Store(0)
	crowd.waited.Store(0)
}

// A limit ends when it is due, also if schedules run rarely or slowly.
func TestCrowdLimitEndsBetweenRuns(t *testing.T) {
	crowd.mu.Lock()
	at := now()
	crowd.now, crowd.began = crowdLimit{workers: 1, raise: at, pause: leastPause}, at-time.Second
	crowd.mu.Unlock()
	crowd.limit.Store(1)
	crowd.waited.Store(int64(time.Second)) // from before
	lookAtCrowd(2)
	require.Zero(t, crowd.limit.Load())
}

// The longest pause bounds what trying again costs, and how long a limit outlives its
// reason.
func TestCrowdLimitPauses(t *testing.T) {
	var l crowdLimit
	at := 20
	for range 12 {
		l = l.next(window(at, 2, 0.5, 9), 2)
		at = int(l.raise.Milliseconds())
		l = l.next(window(at, 1, 0, 9), 2)
		require.Zero(t, l.workers)
		at += 20
	}
	require.Equal(t, mostPause, l.pause)
}

func TestCrowdLimitRises(t *testing.T) {
	l := crowdLimit{workers: 1, pause: leastPause}
	at := 0
	for l.workers > 0 {
		at += int(leastPause.Milliseconds())
		before := l.workers
		l = l.next(window(at, l.workers, 0, 0), 16)
		require.True(t, l.workers > before || l.workers == 0, "%d after %d", l.workers, before)
	}
	require.Less(t, at, 2000)
}

// limitTo sets the limit for as long as the test runs.
func limitTo(t *testing.T, workers int) {
	t.Helper()
	set := func(l crowdLimit) {
		crowd.mu.Lock()
		defer crowd.mu.Unlock()
		crowd.now = l
		crowd.limit.Store(int32(l.workers))
	}
	set(crowdLimit{workers: workers, raise: now() + time.Hour})
	t.Cleanup(func() { set(crowdLimit{}) })
}

// Under a limit, workers that a schedule had before leave it.
func TestScheduleUnderLimit(t *testing.T) {
	withThreads(t, 2, func() {
		var others, units atomic.Int64
		s := NewSchedule([]Step{{{Units: 16, Cost: 1e4, Run: func(c *Context, lo, hi int) error {
			time.Sleep(20 * time.Microsecond)
			units.Add(int64(hi - lo))
			if c.Worker != callerSlot {
				others.Add(1)
			}
			return nil
		}}}})
		require.NoError(t, s.Run(200))
		require.NotZero(t, others.Load(), "there were two")
		limitTo(t, 1)
		require.Equal(t, 1, s.Threads())
		require.NoError(t, s.Run(200)) // time to leave
		before := others.Load()
		require.NoError(t, s.Run(100))
		require.Equal(t, before, others.Load())
		require.EqualValues(t, 500*16, units.Load())
	})
}

// A running schedule looks whether its workers wait for each other, and counts their waits.
func TestScheduleLooksAtCrowd(t *testing.T) {
	withThreads(t, 2, func() {
		limitTo(t, 0)
		var began time.Duration
		var most int64
		slow := Step{{Units: 2, Cost: 1e6, Run: func(_ *Context, lo, _ int) error {
			time.Sleep(time.Duration(lo) * 2 * time.Millisecond) // one waits for the other
			return nil
		}}}
		look := Step{{Units: 1, Run: func(*Context, int, int) error {
			most = max(most, crowd.waited.Load())
			crowd.mu.Lock()
			defer crowd.mu.Unlock()
			began = crowd.began
			return nil
		}}}
		start := now()
		require.NoError(t, NewSchedule([]Step{slow, look}).Run(50))
		require.Greater(t, began, start, "a window has ended")
		require.Greater(t, most, int64(lateTime))
	})
}
