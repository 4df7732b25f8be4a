//go:build linux

package kompute

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edsrzf/mmap-go"
	"github.com/stretchr/testify/require"
)

// shrunk maps a file of float32 elements that has no pages left.
func shrunk(t *testing.T, elements int) []byte {
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, os.WriteFile(path, make([]byte, 4*elements), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	mapped, err := mmap.Map(f, mmap.RDONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mapped.Unmap()) })
	require.NoError(t, os.Truncate(path, 0))
	return mapped
}

// A mapped file that has shrunk is an error of what needs it, on every backend.
func TestWrappedMemoryThatCannotBeRead(t *testing.T) {
	const elements = 1 << 16
	data := shrunk(t, elements)
	onDevices(t, func(t *testing.T, d *Device) {
		v, err := Wrap(d, DTypeFloat32, data, nil, elements)
		require.NoError(t, err)
		x, err := As[float32](v)
		require.NoError(t, err)
		_, err = x.Read(bg)
		require.ErrorIs(t, err, ErrFault)
		_, err = x.ReadAsync(newStream(t, d)).Wait(bg)
		require.ErrorIs(t, err, ErrFault)
		unaligned, err := Wrap(d, DTypeUint8, data[1:], nil, 4*elements-1)
		if d.onCPU() { // which copies it
			require.ErrorIs(t, err, ErrFault)
		} else {
			require.NoError(t, err)
			require.NoError(t, unaligned.Close())
		}
		s := newStream(t, d)
		y := closing(t, run(s, "neg", x))
		require.ErrorIs(t, s.Synchronize(bg), ErrFault)
		_, err = y.Read(bg)
		require.ErrorIs(t, err, ErrFault)
		early := newStream(t, d)
		early.Upload(x)
		_ = closing(t, run(early, "neg", x))
		require.ErrorIs(t, early.Synchronize(bg), ErrFault)
		require.NoError(t, x.Close())
		other := newStream(t, d)
		require.Equal(t, []float32{0, -1}, read(t, closing(t, run(other, "neg", tensor(t, d, upTo(2))))))
	})
}
