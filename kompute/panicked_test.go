package kompute

import (
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A panic of an op on the CPU, in whatever worker, is the error of its stream.
// Others, and the workers, go on.
func TestPanicsBecomeErrors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var log syncText
	onDevices(t, func(t *testing.T, d *Device) {
		for range 5 {
			s, other := newStream(t, d), newStream(t, d)
			x := tensor(t, d, upTo(1<<15))
			broken, good := run(s, "panic", x), run(other, "neg", x)
			_, err := broken.Read(bg)
			require.ErrorIs(t, err, ErrInternal)
			require.ErrorContains(t, err, "panic float32[32768], float32[32768]: panic on the CPU: broken on purpose")
			require.ErrorIs(t, s.Err(), ErrInternal)
			require.Contains(t, log.text(), "helpers_test.go")
			require.EqualValues(t, -7, read(t, good)[7])
			require.NoError(t, broken.Close())
			require.NoError(t, good.Close())
		}
	}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

func TestPanicsInRegions(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(1<<15))
	for _, op := range []string{"panic", "neg"} {
		out, err := Zeros[float32](d, 1<<15)
		require.NoError(t, err)
		defer out.Close()
		s := newStream(t, d)
		region, err := s.Capture(func(s *Stream) {
			between := run(s, "neg", x)
			defer between.Close()
			runInto(s, op, out, between)
		})
		require.NoError(t, err)
		err = region.Replay(bg)
		if err == nil {
			err = s.Synchronize(bg)
		}
		if op == "panic" {
			require.ErrorIs(t, err, ErrInternal)
			require.ErrorContains(t, err, "broken on purpose")
		} else {
			require.NoError(t, err)
			require.EqualValues(t, 7, read(t, out)[7])
		}
		_ = region.Close() // returns the stream's error
	}
}

// syncText collects what is written to it.
type syncText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncText) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
