package kompute_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// A long-lived tensor does not keep closed streams: their memory is freed, and
// enqueueing does not get slower.
func TestATensorRemembersNoClosedStream(t *testing.T) {
	const streams = 20_000
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		weight, err := kompute.New(d, []float32{1, 2, 3})
		require.NoError(t, err)
		out, err := kompute.Empty[float32](d, 3)
		require.NoError(t, err)
		goroutines := runtime.NumGoroutine()
		median := func(n int) time.Duration {
			times := make([]time.Duration, n)
			for i := range times {
				s, err := d.NewStream()
				require.NoError(t, err)
				start := time.Now()
				s.Enqueue(negOp(weight, out))
				times[i] = time.Since(start)
				require.NoError(t, s.Close())
				if i%100 == 99 {
					// Go never frees a goroutine's descriptor, so many goroutines that end late would look like a leak.
					awaitGoroutines(t, goroutines+10)
				}
			}
			slices.Sort(times)
			return times[n/2]
		}
		first := median(200)
		before := heap()
		median(streams)
		grown := int64(heap()) - int64(before)
		last := median(200)
		t.Logf("enqueueing took %v at first and %v after %d streams; the heap grew by %d bytes", first, last, streams, grown)
		require.Less(t, grown, int64(streams*20), "bytes")
		require.Less(t, last, 4*first+20*time.Microsecond)
		require.NoError(t, weight.Close())
	})
}

// awaitGoroutines waits until there are no more than that many.
func awaitGoroutines(t *testing.T, most int) {
	for begun := time.Now(); runtime.NumGoroutine() > most; runtime.Gosched() {
		require.Less(t, time.Since(begun), time.Minute, "goroutines of closed streams do not end")
	}
}

// heap returns the bytes that are live.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
