//go:build unix

package kompute

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A CPU device that has worked and has nothing more to do uses no CPU: its workers sleep.
func TestAnIdleCPUDeviceUsesNoCPU(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(1<<14), 1<<14)
	r := captureTest(t, s, func(s *Stream) { closing(t, Result(s, run(s, "neg", run(s, "add", x, x)))) })
	work := func() {
		for range 20 {
			require.NoError(t, r.Replay(t.Context()))
		}
		require.NoError(t, s.Synchronize(t.Context()))
	}
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const idle = 500 * time.Millisecond
	// Other work of the process, such as collecting garbage, may fall into one of these intervals.
	least := idle
	for range 4 {
		work()
		time.Sleep(20 * time.Millisecond) // they poll a moment for more
		before := used()
		time.Sleep(idle)
		least = min(least, used()-before)
	}
	require.Less(t, least, idle/50)
}
