package fallback

import (
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

// withThreads runs f with at least n threads.
func withThreads(t *testing.T, n int, f func()) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

func TestParallelCoversEachUnitOnce(t *testing.T) {
	withThreads(t, 4, func() {
		rapid.Check(t, func(r *rapid.T) {
			n := rapid.IntRange(0, 2000).Draw(r, "n")
			cost := rapid.SampledFrom([]float64{1, 50, 1e6}).Draw(r, "cost")
			seen := make([]atomic.Int32, n)
			parallel(n, cost, func(lo, hi int) {
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

func TestParallelConcurrentAndNested(t *testing.T) {
	withThreads(t, 4, func() {
		var total atomic.Int64
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 50 {
					parallel(64, 1e5, func(lo, hi int) {
						parallel(hi-lo, 1e5, func(lo, hi int) { total.Add(int64(hi - lo)) })
					})
				}
			})
		}
		callers.Wait()
		require.Equal(t, int64(8*50*64), total.Load())
	})
}

func TestParallelHandsPanicsOn(t *testing.T) {
	withThreads(t, 4, func() {
		require.PanicsWithValue(t, "broken", func() {
			parallel(100, 1e6, func(lo, hi int) {
				if hi == 100 {
					panic("broken")
				}
			})
		})
	})
}

func TestWorkersEnd(t *testing.T) {
	withThreads(t, 4, func() {
		parallel(100, 1e6, func(lo, hi int) { time.Sleep(time.Millisecond) })
		require.Eventually(t, func() bool { return workers.Load() == 0 }, 5*time.Second, idleTime)
		// And start again.
		var n atomic.Int64
		parallel(100, 1e6, func(lo, hi int) { n.Add(int64(hi - lo)) })
		require.Equal(t, int64(100), n.Load())
	})
}

func BenchmarkParallel(b *testing.B) {
	for range b.N {
		parallel(8, 1e5, func(lo, hi int) {})
	}
}
