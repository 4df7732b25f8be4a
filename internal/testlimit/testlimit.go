// Package testlimit bounds the time and memory of tests with hostile input.
package testlimit

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const heap = "/memory/classes/heap/objects:bytes"

// Run calls fn, and fails the test unless fn returns within the given processor time
// (tests share machines) and the heap grows by no more than the given bytes. The
// wall-clock limit is ten times as long, and under the race detector all limits are
// ten times as large. It logs the time and memory used; the peak is sampled every
// millisecond.
func Run(t testing.TB, most time.Duration, bytes uint64, fn func()) {
	t.Helper()
	if raceEnabled {
		most, bytes = 10*most, 10*bytes
	}
	runtime.GC()
	before := read()
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		top := before
		for {
			select {
			case <-done:
				peak <- max(top, read())
				return
			case <-time.After(time.Millisecond):
				top = max(top, read())
			}
		}
	}()
	start, used := time.Now(), cpuTime()
	fn()
	took := time.Since(start)
	used = cpuTime() - used
	close(done)
	grown := <-peak - before
	t.Logf("%v, %v on the processor, %d KiB at the peak", took.Round(time.Millisecond/10), used.Round(time.Millisecond/10), grown>>10)
	require.Less(t, used, most)
	require.Less(t, took, 10*most)
	require.LessOrEqual(t, grown, bytes)
}

func read() uint64 {
	sample := []metrics.Sample{{Name: heap}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
