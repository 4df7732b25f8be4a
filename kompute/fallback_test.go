package kompute

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFallbackIsCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	d, f := openFake(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	f.unsupported["neg"] = "no such kernel today"
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "add", x, x))
	z := closing(t, run(s, "neg", y))
	w := closing(t, run(s, "add", z, x))
	v := closing(t, run(s, "neg", w))
	require.Equal(t, upTo(4), read(t, v))
	stats := s.Stats()
	require.Equal(t, map[string]map[string]int{"neg": {"no such kernel today": 2}}, stats.Fallbacks)
	require.EqualValues(t, 2, stats.Downloads, "y and w")
	require.EqualValues(t, 2, stats.Uploads, "x and z")
	require.Equal(t, FallbackMoves{Waits: 2, Downloads: 2, DownloadBytes: 32, Uploads: 1, UploadBytes: 16}, stats.FallbackMoves, "y, w; z")
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "op=neg")
	require.Contains(t, log.String(), `reason="no such kernel today"`)
}

func TestFallbackOfOpsWithoutNativeKernel(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(6), 2, 3)
		y := closing(t, run(s, "neg", x))
		s.Enqueue(Op{Name: "mine", Args: []Arg{In(x.View()), {}, InOut(closing(t, y.Slice(0, 0, 1)).View())}, CPU: nil})
		if d.Backend() == "vulkan" {
			require.ErrorContains(t, s.Err(), "no native kernel")
		}
		require.ErrorIs(t, s.Err(), ErrUnsupported)

		s = newStream(t, d)
		y = closing(t, run(s, "neg", x))
		row := closing(t, y.Slice(0, 0, 1))
		first := closing(t, x.Slice(0, 1, 2))
		s.Enqueue(Op{Name: "mine", Args: []Arg{In(first.View()), InOut(row.View())}, CPU: testOps["copy"]})
		z := closing(t, run(s, "neg", y))
		require.Equal(t, []float32{3, 4, 5, -3, -4, -5}, read(t, y))
		require.Equal(t, []float32{-3, -4, -5, 3, 4, 5}, read(t, z))
		require.Equal(t, d.Backend() == "vulkan", s.Stats().Fallbacks["mine"]["no native kernel"] == 1)
	})
}

func TestStrictMakesAFallbackAnError(t *testing.T) {
	d, f := openFake(t, WithStrict())
	f.unsupported["neg"] = "why"
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "neg", x))
	_, err := y.Read(bg)
	require.ErrorIs(t, err, ErrUnsupported)
	require.EqualError(t, err, "neg float32[4], float32[4]: why: not supported")
	require.Empty(t, s.Stats().Fallbacks)
}

func TestFallbackThatFails(t *testing.T) {
	d, f := openFake(t)
	f.unsupported["fail"] = "why"
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "fail", x))
	_, err := y.Read(bg)
	require.ErrorIs(t, err, errTest)
	require.Equal(t, upTo(4), read(t, x))
	f.failing["download"] = nativeError(codeDeviceLost, 0, 0, "lost")
	s = newStream(t, d)
	f.unsupported["neg"] = "why"
	z := closing(t, run(s, "add", x, x))
	closing(t, run(s, "neg", z))
	require.ErrorIs(t, s.Err(), ErrDeviceLost)
	require.ErrorIs(t, s.Synchronize(bg), ErrDeviceLost)
}

// Several streams that fall back on shared tensors, while the host reads them.
func TestFallbacksOnSharedTensors(t *testing.T) {
	d, f := openFake(t)
	f.unsupported["neg"] = "why"
	x := tensor(t, d, upTo(64))
	done := make(chan error)
	for range 4 {
		s := newStream(t, d)
		go func() {
			for range 20 {
				y := run(s, "neg", x)
				z := run(s, "add", x, y)
				if _, err := z.Read(bg); err != nil {
					done <- err
					return
				}
				_, _ = y.Close(), z.Close()
			}
			done <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
}
