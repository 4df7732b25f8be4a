package kompute

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reshaped alias of what the device has just written must neither read stale
// host bytes nor upload them over the fresh ones.
func TestReshapeOfAFreshArray(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(6), 2, 3)
		alias := closing(t, x.Reshape(3, 2))
		runInto(s, "neg", x, x)
		again := closing(t, x.Reshape(6))
		y := closing(t, run(s, "neg", alias))
		require.Equal(t, []float32{0, -1, -2, -3, -4, -5}, read(t, alias))
		require.Equal(t, []float32{0, -1, -2, -3, -4, -5}, read(t, again))
		require.Equal(t, upTo(6), read(t, y))
		require.LessOrEqual(t, s.Stats().Uploads, uint64(1))
	})
}

func TestTransposeBetweenOps(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(6), 2, 3)
		y := closing(t, run(s, "neg", x))
		z := closing(t, run(s, "copy", closing(t, y.Transpose())))
		require.Equal(t, []float32{0, -3, -1, -4, -2, -5}, read(t, z))
		w := closing(t, run(s, "add", closing(t, z.Transpose()), x))
		require.Equal(t, make([]float32, 6), read(t, w))
	})
}

// A part written on the device, then everything read on the host.
func TestSliceWrittenOnTheDeviceThenReadWhole(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(12), 3, 4)
		row := tensor(t, d, []float32{100, 101, 102, 103}, 1, 4)
		runInto(s, "copy", closing(t, x.Slice(0, 1, 2)), row)
		require.Equal(t, []float32{0, 1, 2, 3, 100, 101, 102, 103, 8, 9, 10, 11}, read(t, x))
		column := closing(t, x.Slice(1, 3, 4))
		require.NoError(t, column.Write(bg, []float32{-1, -2, -3}))
		y := closing(t, run(s, "neg", x))
		require.Equal(t, []float32{0, -1, -2, 1, -100, -101, -102, 2, -8, -9, -10, 3}, read(t, y))
	})
}

func TestViewOutlivesItsBase(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, err := New(d, upTo(6), 2, 3)
		require.NoError(t, err)
		row := x.Slice(0, 1, 2)
		require.NoError(t, x.Close())
		require.NoError(t, x.Close())
		_, err = x.Read(bg)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, []float32{3, 4, 5}, read(t, row))
		y := closing(t, run(s, "neg", row))
		require.NoError(t, row.Close())
		require.Equal(t, []float32{-3, -4, -5}, read(t, y))
		require.Equal(t, 1, d.Stats().LiveTensors)
	})
}

// A cache that is larger than its used part: rows are added one by one, and
// the part used so far is read by ops and by the host.
func TestCacheLargerThanItsUsedPart(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		cache, err := Zeros[float32](d, 8, 4)
		require.NoError(t, err)
		defer cache.Close()
		var want []float32
		for i := range 5 {
			row := make([]float32, 4)
			for k := range row {
				row[k] = float32(10*i + k)
			}
			want = append(want, row...)
			x := tensor(t, d, row, 1, 4)
			runInto(s, "copy", closing(t, cache.Slice(0, i, i+1)), x)
			used := closing(t, cache.Slice(0, 0, i+1))
			doubled := closing(t, run(s, "add", used, used))
			for k, v := range read(t, doubled) {
				require.Equal(t, 2*want[k], v)
			}
		}
		require.Equal(t, append(slices.Clone(want), make([]float32, 12)...), read(t, cache))
	})
}

func TestOutputsAreNeverUploadedAndReadsDownloadOnce(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	x := tensor(t, d, upTo(100))
	y := closing(t, run(s, "neg", x))
	for range 5 {
		y = closing(t, run(s, "add", y, x))
	}
	require.NoError(t, s.Synchronize(bg))
	stats := s.Stats()
	require.EqualValues(t, 1, stats.Uploads, "x, once")
	require.EqualValues(t, 400, stats.UploadBytes)
	require.Zero(t, stats.Downloads)

	read(t, x)
	require.Zero(t, d.Stats().Downloads, "the host still has x")
	for range 3 {
		read(t, y)
		read(t, closing(t, y.Reshape(10, 10)))
	}
	stats = s.Stats()
	require.EqualValues(t, 1, stats.Downloads, "y, once")
	require.EqualValues(t, 400, stats.DownloadBytes)
	require.Equal(t, d.Stats().Downloads, stats.Downloads)

	require.NoError(t, y.Write(bg, upTo(100)))
	read(t, closing(t, run(s, "neg", y)))
	require.EqualValues(t, 2, s.Stats().Uploads, "y, which the host wrote")
}

func TestReadingAPartDownloadsThatPart(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	x := tensor(t, d, upTo(1000), 100, 10)
	y := closing(t, run(s, "neg", x))
	row := closing(t, closing(t, y.Slice(0, 53, 54)).Slice(1, 3, 10))
	require.Equal(t, []float32{-533, -534, -535, -536, -537, -538, -539}, read(t, row))
	require.LessOrEqual(t, d.Stats().DownloadBytes, uint64(28+16))
}

func TestUploadBringsTensorsEarly(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, y := tensor(t, d, upTo(4)), tensor(t, d, upTo(8))
		empty, err := Empty[float32](d, 4)
		require.NoError(t, err)
		s.Upload(x, y, closing(t, empty), x)
		if d.Backend() == "vulkan" {
			require.EqualValues(t, 2, s.Stats().Uploads)
		}
		z := closing(t, run(s, "neg", x))
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, z))
		require.LessOrEqual(t, s.Stats().Uploads, uint64(2))
		require.True(t, x.View().SameStorage(closing(t, x.Reshape(2, 2)).View()))
		require.False(t, x.View().SameStorage(y.View()))
		require.False(t, (&View{}).SameStorage(&View{}))

		for _, bad := range []AnyTensor{nil, (*Tensor[float32])(nil), x.Reshape(5)} {
			s := newStream(t, d)
			s.Upload(x, bad)
			require.Error(t, s.Err())
		}
	})
}

// An output that covers the storage in another order is not uploaded first;
// one that covers a part is.
func TestPartialWritesKeepTheRest(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		uploads := func(n int, why string) {
			if d.Backend() == "vulkan" {
				require.EqualValues(t, n, d.Stats().Uploads, why)
			}
		}
		s := newStream(t, d)
		x, y := tensor(t, d, upTo(6), 2, 3), tensor(t, d, make([]float32, 6), 3, 2)
		s.Enqueue(makeOp("copy", In(x.View()), Out(closing(t, y.Transpose()).View())))
		require.Equal(t, []float32{0, 3, 1, 4, 2, 5}, read(t, y))
		uploads(1, "x alone")

		z := tensor(t, d, []float32{7, 7, 7, 7}, 2, 2)
		part := closing(t, closing(t, z.Reshape(1, 4)).Slice(1, 0, 3))
		s.Enqueue(makeOp("neg", In(closing(t, x.Slice(0, 0, 1)).View()), Out(part.View())))
		require.Equal(t, []float32{0, -1, -2, 7}, read(t, z))
		uploads(2, "and z, of which a part stays")
	})
}

func TestHostWriteWaitsForNothingWhereTheDeviceHasItsOwnMemory(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	open := holdBack(t, s)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "neg", x))
	require.NoError(t, s.Flush())
	quickly(t, func() { require.NoError(t, x.Write(bg, []float32{9, 9, 9, 9})) })
	z := closing(t, run(s, "neg", x))
	open()
	require.Equal(t, []float32{0, -1, -2, -3}, read(t, y), "enqueued before the write")
	require.Equal(t, []float32{-9, -9, -9, -9}, read(t, z))
}

func TestHostWriteOnTheCPUWaitsForReaders(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	gate := make(chan struct{})
	x := tensor(t, d, upTo(4))
	y := closing(t, Output[float32](s, 4))
	s.Enqueue(Op{Name: "slow", Args: []Arg{In(x.View()), Out(y.View())}, CPU: gated(gate, "neg")})
	ctx, cancel := contextFor(20)
	defer cancel()
	require.ErrorIs(t, x.Write(ctx, make([]float32, 4)), ctx.Err())
	close(gate)
	require.NoError(t, x.Write(bg, make([]float32, 4)))
	require.Equal(t, []float32{0, -1, -2, -3}, read(t, y))
}
