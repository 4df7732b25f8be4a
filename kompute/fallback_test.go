package kompute

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFallbackIsCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	d := vulkanOrSkip(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithDisabled("unary"))
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "add", x, x))
	z := closing(t, run(s, "neg", y))
	w := closing(t, run(s, "add", z, x))
	v := closing(t, run(s, "neg", w))
	require.Equal(t, upTo(4), read(t, v))
	stats := s.Stats()
	require.Equal(t, map[string]map[string]int{"unary": {"disabled": 2}}, stats.Fallbacks)
	require.EqualValues(t, 2, stats.Downloads, "y and w")
	require.EqualValues(t, 2, stats.Uploads, "x and z; v stays with the host")
	require.Equal(t, FallbackMoves{Waits: 2, Downloads: 2, DownloadBytes: 32, Uploads: 2, UploadBytes: 32}, movesOf(stats, "unary"), "y, w; z, v")
	require.Positive(t, stats.FallbackMoves["unary"].WaitTime)
	require.Len(t, stats.FallbackMoves, 1)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "op=unary")
	require.Contains(t, log.String(), `reason=disabled`)
	require.Contains(t, log.String(), `operands="read float32[4], write float32[4]"`)
}

// The log has the strides and the offset of views.
func TestALoggedFallbackHasItsLayouts(t *testing.T) {
	var log bytes.Buffer
	d := vulkanOrSkip(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithDisabled("unary"))
	x := tensor(t, d, upTo(6), 2, 3)
	row := closing(t, closing(t, x.Transpose()).Slice(0, 1, 3))
	require.Equal(t, []float32{-1, -4, -2, -5}, read(t, closing(t, run(newStream(t, d), "neg", row))))
	require.Contains(t, log.String(), `operands="read float32[2 2] strides [1 3] offset 1, write float32[2 2]"`)
}

// movesOf returns an op's moves, without the time, which is never the same.
func movesOf(s StreamStats, op string) FallbackMoves {
	m := s.FallbackMoves[op]
	m.WaitTime = 0
	return m
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
	d := vulkanOrSkip(t, WithStrict(), WithDisabled("unary"))
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "neg", x))
	_, err := y.Read(bg)
	require.ErrorIs(t, err, ErrUnsupported)
	require.EqualError(t, err, "unary float32[4], float32[4]: disabled: not supported")
	require.Empty(t, s.Stats().Fallbacks)
}

func TestFallbackThatFails(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		y := closing(t, run(s, "fail", x))
		_, err := y.Read(bg)
		require.ErrorIs(t, err, errTest)
		require.ErrorIs(t, s.Synchronize(bg), errTest)
		require.Equal(t, upTo(4), read(t, x))
	})
}

// lateContext calls late when it is looked at for the second time: Write looks before it begins, and once more while it
// waits until mapped memory holds the data.
type lateContext struct {
	context.Context
	looks int
	late  func()
}

func (c *lateContext) Err() error {
	if c.looks++; c.looks == 2 {
		c.late()
	}
	return c.Context.Err()
}

// The error of a fallback that fails after a write of the host stays, although that call of Write has not returned yet.
func TestAFallbackThatFailsAfterAWrite(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	m, err := NewMapped[float32](d, 2)
	require.NoError(t, err)
	defer m.Close()
	x := m.Tensor()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	require.NoError(t, x.Write(&lateContext{Context: ctx, late: func() {
		s.Enqueue(Op{Name: "fail", Args: []Arg{Out(x.View())}, CPU: func([]Array, []byte) error { return errTest }})
	}}, upTo(2)))
	_, err = x.Read(bg)
	require.ErrorIs(t, err, errTest)
	require.NoError(t, x.Write(bg, upTo(2)))
	require.Equal(t, upTo(2), read(t, x))
}

// Several streams that fall back on shared tensors, while the host reads them.
func TestFallbacksOnSharedTensors(t *testing.T) {
	d := vulkanOrSkip(t, WithDisabled("unary"))
	x := tensor(t, d, upTo(64))
	done := make(chan error)
	for range 4 {
		s := newStream(t, d)
		go func() {
			for range 20 {
				y := run(s, "neg", x)
				z := run(s, "add", x, y)
				got, err := z.Read(bg)
				if err == nil && !slices.Equal(got, make([]float32, 64)) {
					err = fmt.Errorf("wrong numbers: %v", got)
				}
				if err != nil {
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

// A fallback on a stream with a context waits no longer than the context allows.
func TestAFallbackHonoursAContext(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		slow := newStream(t, d)
		s, err := d.NewStream(WithContext(ctx))
		require.NoError(t, err)
		open := holdBack(t, slow)
		x := tensor(t, d, upTo(4))
		y := closing(t, run(slow, "neg", x))
		require.NoError(t, slow.Flush())
		time.AfterFunc(20*time.Millisecond, cancel)
		var z *Tensor[float32]
		quickly(t, func() { z = closing(t, run(s, "only_on_the_cpu", y)) })
		if d.Backend() == "cpu" { // where enqueueing never waits
			require.NoError(t, s.Err())
			open()
			require.Equal(t, upTo(4), read(t, z))
			return
		}
		require.ErrorIs(t, s.Err(), context.Canceled)
		_, err = z.Read(bg)
		require.ErrorIs(t, err, context.Canceled)
		open()
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, y), "the work is left alone")
		require.NoError(t, slow.Synchronize(bg))
	})
}

// Without a context it waits as long as it takes.
func TestAFallbackWaitsForItsOperands(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		slow, s := newStream(t, d), newStream(t, d)
		open := holdBack(t, slow)
		x := tensor(t, d, upTo(4))
		y := closing(t, run(slow, "neg", x))
		time.AfterFunc(20*time.Millisecond, open)
		require.Equal(t, upTo(4), read(t, closing(t, run(s, "only_on_the_cpu", y))))
	})
}
