package kompute

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Copies begin lines of the processor's cache, and do not overlap.
func TestUploadsLieBehindOneAnother(t *testing.T) {
	needHugePages(t)
	rapid.Check(t, func(t *rapid.T) {
		u := newCPUUploads()
		var copies [][]byte
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 3<<20), 1, 20).Draw(t, "sizes") {
			b := u.take(n)
			require.Len(t, b, n)
			require.Zero(t, uintptr(unsafe.Pointer(&b[0]))%uploadAlignment)
			b[0], b[n-1] = byte(i), byte(i)
			copies = append(copies, b)
		}
		for i, b := range copies {
			require.Equal(t, byte(i), b[0])
			require.Equal(t, byte(i), b[len(b)-1])
		}
		var bytes int64
		for _, b := range copies {
			bytes += int64(len(b))
		}
		require.LessOrEqual(t, u.taken.Load(), 4*bytes+2*hugePage, "blocks double")
	})
}

// needHugePages skips a test of what is not done without them.
func needHugePages(t *testing.T) {
	t.Helper()
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skip("this system has no transparent huge pages")
	}
	require.NotNil(t, newCPUUploads().take(1), "transparent huge pages: %s", mode)
}

// Where memory is short, tensors stay where they are.
func TestUploadsLeaveMemoryToOthers(t *testing.T) {
	total, _ := hostMemorySize()
	u := newCPUUploads()
	u.taken.Store(2 * total) // more than half of what others leave, whatever they do meanwhile
	require.Nil(t, u.take(1))

	d := openTest(t, "cpu")
	d.backend.(cpuBackend).uploads.taken.Store(2 * total)
	weights := []float32{1, 2, 3}
	s, x := newStream(t, d), wrapped(t, d, weights)
	s.Upload(x)
	require.Equal(t, []float32{-1, -2, -3}, read(t, closing(t, run(s, "neg", x))))
	weights[0] = 4 // as nobody should, but this shows whose memory it is
	require.Equal(t, []float32{4, 2, 3}, read(t, x))
}

// Uploaded weights need the caller's memory no more, such as a mapped file that shrinks. Tensors
// with memory of their own are not copied.
func TestUploadCopiesWrappedMemory(t *testing.T) {
	needHugePages(t)
	d := openTest(t, "cpu")
	weights := []float32{1, 2, 3}
	s, x, own := newStream(t, d), wrapped(t, d, weights), tensor(t, d, upTo(3))
	s.Upload(x, own, x)
	clear(weights)
	s.Upload(x)
	require.Equal(t, []float32{1, 2, 3}, read(t, x))
	require.Equal(t, []float32{-1, -2, -3}, read(t, closing(t, run(s, "neg", x))))
	taken := d.backend.(cpuBackend).uploads
	require.Len(t, taken.free, int(taken.taken.Load())-uploadAlignment, "x once, and nothing else")
}

// A region that has been replayed before a tensor is uploaded does not need the caller's memory any more, either.
func TestUploadOfARegionsTensor(t *testing.T) {
	needHugePages(t)
	d := openTest(t, "cpu")
	weights := []float32{1, 2, 3}
	s, x := newStream(t, d), wrapped(t, d, weights)
	var y *Tensor[float32]
	r, err := s.Capture(func(s *Stream) { y = Result(s, run(s, "neg", x)) })
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, r.Replay(bg))
		require.Equal(t, []float32{-1, -2, -3}, read(t, y))
		s.Upload(x)
		require.NoError(t, s.Synchronize(bg))
		clear(weights)
	}
	require.NoError(t, r.Close())
	require.NoError(t, y.Close())
}

// The memory of closed tensors can be taken again.
func TestUploadsAreFreed(t *testing.T) {
	needHugePages(t)
	u := newCPUUploads()
	for range 10 {
		require.NotNil(t, u.take(hugePage))
	}
	before := u.taken.Load()
	require.Eventually(t, func() bool {
		runtime.GC()
		return u.taken.Load() < before
	}, time.Minute, time.Millisecond)
	require.Positive(t, u.taken.Load(), "the last block is still in use")
}

// wrapped returns a tensor in the caller's memory.
func wrapped(t testing.TB, d *Device, data []float32) *Tensor[float32] {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), 4*len(data))
	v, err := Wrap(d, DTypeFloat32, bytes, nil, len(data))
	require.NoError(t, err)
	x, err := As[float32](v)
	require.NoError(t, err)
	return closing(t, x)
}
