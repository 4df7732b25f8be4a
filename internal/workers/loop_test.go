package workers

import (
	"bytes"
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// withThreads runs f with n threads.
func withThreads(t testing.TB, n int, f func()) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

func TestForCoversEachUnitOnce(t *testing.T) {
	withThreads(t, 4, func() {
		rapid.Check(t, func(r *rapid.T) {
			n := rapid.IntRange(0, 2000).Draw(r, "n")
			cost := rapid.SampledFrom([]float64{0, 1, 50, 1e6}).Draw(r, "cost")
			seen := make([]atomic.Int32, n)
			For(n, cost, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				require.Equal(r, int32(1), seen[i].Load())
			}
		})
	})
}

// A loop is cut anew where only the cost differs from that of the one before.
func TestForOfOneSizeAtOtherCosts(t *testing.T) {
	withThreads(t, 4, func() {
		for _, cost := range []float64{50, 1e3, 50, 1e6} {
			const n = 1000
			seen := make([]atomic.Int32, n)
			For(n, cost, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				require.Equal(t, int32(1), seen[i].Load(), "cost %v", cost)
			}
		}
	})
}

func TestForConcurrentAndNested(t *testing.T) {
	withThreads(t, 4, func() {
		var total atomic.Int64
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 50 {
					For(64, 1e5, func(lo, hi int) {
						For(hi-lo, 1e5, func(lo, hi int) { total.Add(int64(hi - lo)) })
					})
				}
			})
		}
		callers.Wait()
		require.Equal(t, int64(8*50*64), total.Load())
	})
}

func TestForHandsPanicsOn(t *testing.T) {
	withThreads(t, 4, func() {
		for range 10 {
			func() {
				defer func() {
					var got *PanicError
					require.ErrorAs(t, recover().(error), &got)
					require.Equal(t, "broken", got.Value)
					require.Contains(t, string(got.Stack), "TestForHandsPanicsOn")
				}()
				For(100, 1e6, func(lo, hi int) {
					if hi == 100 {
						For(100, 1e6, func(lo, hi int) { panic("broken") })
					}
				})
			}()
			n := 0
			For(1, 1e6, func(lo, hi int) { n += hi - lo })
			require.Equal(t, 1, n)
		}
	})
}

// A worker in the middle of a piece can help with the loop that the piece belongs to, and
// then is in two slots. It must not wait for a free one: those in the others wait for it.
func TestAttachDoesNotWait(t *testing.T) {
	j := newJob([]step{{parts: []part{{}}}}, 3)
	for want := 1; want < 3; want++ {
		me, ok := j.attach()
		require.True(t, ok)
		require.Equal(t, want, me, "the first slot is the caller's")
	}
	_, ok := j.attach()
	require.False(t, ok)
}

func TestWorkersEnd(t *testing.T) {
	withThreads(t, 4, func() {
		For(100, 1e6, func(lo, hi int) { time.Sleep(time.Millisecond) })
		require.Eventually(t, func() bool { return all.Load() == 0 }, time.Minute, idleTime)
		// They start again.
		var n atomic.Int64
		For(100, 1e6, func(lo, hi int) { n.Add(int64(hi - lo)) })
		require.Equal(t, int64(100), n.Load())
	})
}

func BenchmarkFor(b *testing.B) {
	for range b.N {
		For(8, 1e5, func(lo, hi int) {})
	}
}

// A caller that helps with another loop while it waits comes back when its own loop is done, not when the other one is.
func TestHelpersComeBack(t *testing.T) {
	withThreads(t, 3, func() {
		seen := false
		for range 20 {
			helped, late := helpUntilDone()
			require.Zero(t, late)
			if seen = seen || helped; seen {
				break
			}
		}
		require.True(t, seen, "nobody helped")
	})
}

// helpUntilDone runs a loop that ends while its caller is at work on a part of another one. It reports whether that
// happened, and how many parts the caller began although its own loop was done.
func helpUntilDone() (helped bool, late int32) {
	me, begins, other := goroutine(), make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begins) })
	var helping, ended, over atomic.Bool
	var begun atomic.Int32
	await := func(flag *atomic.Bool, most time.Duration) {
		for since := now(); !flag.Load() && now()-since < most; {
			time.Sleep(50 * time.Microsecond)
		}
	}
	go func() {
		defer close(other)
		<-begins
		For(400, 1e6, func(lo, hi int) {
			switch {
			case goroutine() != me:
				await(&over, 400*time.Millisecond) // so that there is always something to do
			case over.Load():
				begun.Add(1)
			default:
				helping.Store(true)
				await(&ended, 20*time.Millisecond)
				time.Sleep(200 * time.Millisecond) // the loop ends right after its last half
				over.Store(ended.Load())
			}
		})
	}()
	For(2, 1e6, func(lo, hi int) {
		if goroutine() == me {
			time.Sleep(2 * time.Millisecond) // so that a worker takes the other half
			return
		}
		begin()
		await(&helping, 20*time.Millisecond)
		ended.Store(true)
	})
	begin()
	<-other
	return over.Load(), begun.Load()
}

// goroutine returns the number of this goroutine.
func goroutine() string {
	var b [64]byte
	return string(bytes.Fields(b[:runtime.Stack(b[:], false)])[1])
}
