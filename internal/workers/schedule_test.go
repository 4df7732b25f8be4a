package workers

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// randomSchedule draws steps that count how often each unit has run.
func randomSchedule(r *rapid.T) (steps []Step, counts [][]atomic.Int32) {
	for range rapid.IntRange(1, 6).Draw(r, "steps") {
		var step Step
		for range rapid.IntRange(1, 3).Draw(r, "parts") {
			count := make([]atomic.Int32, rapid.IntRange(0, 200).Draw(r, "units"))
			counts = append(counts, count)
			units, size := len(count), (func() int)(nil)
			if rapid.Bool().Draw(r, "has a size") {
				units, size = len(count)+rapid.IntRange(0, 200).Draw(r, "more units"), func() int { return len(count) }
			}
			step = append(step, Part{
				Units: units, Size: size, Align: rapid.IntRange(0, 9).Draw(r, "align"),
				Cost: rapid.SampledFrom([]float64{0, 1, 100, 1e5}).Draw(r, "cost"),
				Run: func(_ *Context, lo, hi int) error {
					for i := lo; i < hi; i++ {
						count[i].Add(1)
					}
					return nil
				},
			})
		}
		steps = append(steps, step)
	}
	return steps, counts
}

func TestScheduleRunsEachUnitOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		withThreads(t, rapid.IntRange(1, 9).Draw(r, "threads"), func() {
			steps, counts := randomSchedule(r)
			s := NewSchedule(steps)
			times := rapid.IntRange(0, 20).Draw(r, "times")
			for range 3 {
				require.NoError(r, s.Run(times))
			}
			for _, count := range counts {
				for i := range count {
					require.EqualValues(r, 3*times, count[i].Load())
				}
			}
		})
	})
}

// A step begins when the previous one is done: each adds to the result of the
// one before.
func TestStepsFollowOneAnother(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		withThreads(t, threads, func() {
			const n = 64
			var a, b [n]int
			steps := []Step{
				{{Units: n, Cost: 1e4, Run: func(_ *Context, lo, hi int) error {
					for i := lo; i < hi; i++ {
						a[i] = b[n-1-i] + 1
					}
					return nil
				}}},
				{{Units: n, Cost: 1e4, Run: func(_ *Context, lo, hi int) error {
					for i := lo; i < hi; i++ {
						b[i] = a[n-1-i] + 1
					}
					return nil
				}}},
				{{Units: 1, Run: func(*Context, int, int) error { b[0]++; return nil }}, {Units: 1, Run: func(*Context, int, int) error { b[1]++; return nil }}},
			}
			s := NewSchedule(steps)
			for range 20 {
				require.NoError(t, s.Run(25))
			}
			require.Equal(t, 500*2, b[n/2])
			require.Equal(t, 500*3, b[1])
		})
	}
}

// The sizes of a step may depend on results of earlier steps or runs.
func TestSizesKnownWhenAStepBegins(t *testing.T) {
	withThreads(t, 4, func() {
		size, want := 0, int64(0)
		var done atomic.Int64
		s := NewSchedule([]Step{
			{{Units: 1, Run: func(*Context, int, int) error { size = (size + 7) % 100; want += int64(size); return nil }}},
			{{Units: 99, Cost: 1e4, Size: func() int { return size }, Run: func(_ *Context, lo, hi int) error {
				done.Add(int64(hi - lo))
				return nil
			}}},
		})
		for range 20 {
			require.NoError(t, s.Run(50))
		}
		require.Equal(t, want, done.Load())
	})
}

// A panic where a step's size is determined, by whichever worker, fails the run like one of a piece.
func TestSizePanics(t *testing.T) {
	withThreads(t, 4, func() {
		bad := errors.New("bad")
		panics := true
		s := NewSchedule([]Step{
			{{Units: 100, Cost: 1e4, Run: func(*Context, int, int) error { return nil }}},
			{{Units: 1, Run: func(*Context, int, int) error { return nil }, Size: func() int {
				if panics {
					panic(bad)
				}
				return 1
			}}},
		})
		for range 50 {
			panics = true
			var p *PanicError
			require.ErrorAs(t, s.Run(3), &p)
			require.Equal(t, bad, p.Value)
			panics = false
			require.NoError(t, s.Run(3))
		}
		require.ErrorIs(t, s.RunWatched(1, func(int) { panic(bad) }), bad)
	})
}

func TestScheduleFails(t *testing.T) {
	withThreads(t, 4, func() {
		bad := errors.New("bad")
		var fail, behind atomic.Int64
		s := NewSchedule([]Step{
			{{Units: 100, Cost: 1e4, Run: func(_ *Context, lo, hi int) error {
				switch f := int(fail.Load()); {
				case f > 0 && lo <= f && f < hi:
					return bad
				case f < 0 && lo <= -f && -f < hi:
					panic(bad)
				}
				return nil
			}}},
			{{Units: 1, Run: func(*Context, int, int) error { behind.Add(1); return nil }}},
		})
		require.NoError(t, s.Run(2))
		fail.Store(50)
		require.ErrorIs(t, s.Run(3), bad)
		fail.Store(-70)
		err := s.Run(3)
		require.ErrorIs(t, err, bad)
		require.ErrorAs(t, err, new(*PanicError))
		fail.Store(0)
		require.NoError(t, s.Run(1))
		require.EqualValues(t, 3, behind.Load())
	})
}

// Loops inside a piece are shared with workers that wait for it.
func TestLoopsInsideOfAStep(t *testing.T) {
	withThreads(t, 4, func() {
		var n atomic.Int64
		s := NewSchedule([]Step{{{Units: 1, Cost: 1e6, Run: func(*Context, int, int) error {
			For(100, 1e5, func(lo, hi int) { n.Add(int64(hi - lo)) })
			return nil
		}}}})
		require.NoError(t, s.Run(30))
		require.EqualValues(t, 3000, n.Load())
	})
}

// Several schedules at once, while the number of threads changes.
func TestSchedulesWhileThreadsChange(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var total atomic.Int64
	var callers sync.WaitGroup
	stop := make(chan struct{})
	changes := sync.WaitGroup{}
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond):
				runtime.GOMAXPROCS(1 + i%6)
			}
		}
	})
	for range 3 {
		s := NewSchedule([]Step{
			{{Units: 50, Cost: 1e4, Run: func(_ *Context, lo, hi int) error {
				if lo == 0 {
					time.Sleep(200 * time.Microsecond) // so that the others park
				}
				total.Add(int64(hi - lo))
				return nil
			}}},
			{{Units: 1, Cost: 10, Run: func(_ *Context, lo, hi int) error { total.Add(int64(hi - lo)); return nil }}},
		})
		callers.Go(func() {
			for range 40 {
				if err := s.Run(10); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	changes.Wait()
	require.EqualValues(t, 3*400*51, total.Load())
}

// A schedule that begins with one processor takes others that come later in its run.
func TestProcessorsThatComeLater(t *testing.T) {
	const most = 50_000 // runs, as long as other programs want the processors
	came := errors.New("another worker has taken a piece")
	withThreads(t, 2, func() {
		var begun atomic.Bool
		s := NewSchedule([]Step{{Part{Units: 16, Cost: 1e5, Run: func(c *Context, _, _ int) error {
			if c.Worker != callerSlot {
				require.True(t, begun.Load())
				return came
			}
			for end := now() + 20*time.Microsecond; now() < end; {
			}
			return nil
		}}}})
		runtime.GOMAXPROCS(1)
		require.ErrorIs(t, s.RunWatched(most, func(run int) {
			if run == 50 {
				begun.Store(true)
				runtime.GOMAXPROCS(2)
			}
		}), came)
	})
}

// A worker without a processor leaves, unless it sleeps already, although no turn is long enough for that.
func TestWorkersLeaveWithTheirProcessors(t *testing.T) {
	const most = 200_000 // runs, as long as other programs want the processors
	left, never := errors.New("the other worker has left"), errors.New("it never leaves")
	withThreads(t, 2, func() {
		var s *Schedule
		var deadline time.Duration // once both have worked
		s = NewSchedule([]Step{{Part{Units: 4, Cost: 1e4, Run: func(*Context, int, int) error {
			for end := now() + 20*time.Microsecond; now() < end; {
			}
			return nil
		}}}, {Part{Units: 1, Cost: 10, Run: func(*Context, int, int) error {
			switch workers := s.job.attached.Load() - s.job.parked.Load(); {
			case deadline == 0 && workers == 2:
				runtime.GOMAXPROCS(1)
				deadline = now() + 10*time.Second
			case deadline > 0 && workers == 1:
				return left
			case deadline > 0 && now() > deadline:
				return never
			}
			return nil
		}}}})
		require.ErrorIs(t, s.Run(most), left)
	})
}

// Other goroutines get to run while a schedule uses every thread.
func TestOthersGetTheirTurn(t *testing.T) {
	withThreads(t, 2, func() {
		var stop atomic.Bool
		end := errors.New("end")
		s := NewSchedule([]Step{{{Units: 64, Cost: 1e4, Run: func(*Context, int, int) error {
			if stop.Load() {
				return end
			}
			return nil
		}}}})
		ended := make(chan error)
		go func() { ended <- s.Run(1 << 30) }()
		for range 20 {
			time.Sleep(time.Millisecond)
		}
		stop.Store(true)
		require.ErrorIs(t, <-ended, end)
	})
}

func TestRunAllocatesNothing(t *testing.T) {
	withThreads(t, 2, func() {
		s := NewSchedule([]Step{{{Units: 64, Cost: 1e4, Run: func(c *Context, _, _ int) error {
			if !c.Prepared() {
				c.Local = t
			}
			return nil
		}}}})
		require.NoError(t, s.Run(2000))
		require.Less(t, testing.AllocsPerRun(50, func() { _ = s.Run(3) }), 0.5)
	})
}

// BenchmarkStep is the cost of a step of 16 pieces that do nothing.
func BenchmarkStep(b *testing.B) {
	s := NewSchedule([]Step{{{Units: 16, Cost: worthwhile, Run: func(*Context, int, int) error { return nil }}}})
	if err := s.Run(b.N); err != nil {
		b.Fatal(err)
	}
}

// Workers that wait ask for what they will need in the next step or, if that does not want it, in
// the one after it: for units that exist, each worker for those of its share. Meanwhile the number
// of processors changes, and loops run.
func TestPrefetchWhileWaiting(t *testing.T) {
	withThreads(t, 4, func() {
		const units = 1001
		var asked [units]atomic.Int32
		var wrong atomic.Int32
		slow := 0 // the piece that the other workers wait for
		s := NewSchedule([]Step{
			{{Units: 4, Cost: 1e6, Run: func(_ *Context, lo, hi int) error {
				if lo <= slow && slow < hi {
					time.Sleep(100 * time.Microsecond)
				}
				return nil
			}}},
			{{Units: 1, Size: func() int { return 0 }, Run: func(*Context, int, int) error { return nil }}},
			{{
				Units: units, Align: 8, Cost: 100, Run: func(*Context, int, int) error { return nil },
				Prefetch: func(lo, hi int) {
					if lo < 0 || lo > hi || hi > units {
						wrong.Add(1)
						return
					}
					for i := lo; i < hi; i++ {
						asked[i].Add(1)
					}
				},
			}},
		})
		everything := func() bool {
			for i := range asked {
				if asked[i].Load() == 0 {
					return false
				}
			}
			return true
		}
		runs := 5
		for end := time.Now().Add(time.Minute); !everything(); slow = (slow + 1) % 4 {
			require.True(t, time.Now().Before(end), "some units were never asked for")
			liftCrowdLimit() // a worker alone never waits
			runtime.GOMAXPROCS(2 + slow)
			require.NoError(t, s.Run(runs))
			runs = min(runs+1, 500) // for as long as other programs may keep a worker from joining
			For(16, 1e5, func(int, int) {})
		}
		require.Zero(t, wrong.Load())
	})
}
