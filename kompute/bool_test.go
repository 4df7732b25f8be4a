package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Wrapped bools are 0 or 1: nothing may write others, and Go could not read them.
func TestWrapOfBools(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		_, err := Wrap(d, DTypeBool, []byte{1, 0, 255, 0}, nil, 4)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "a byte is 255")
		v, err := Wrap(d, DTypeBool, []byte{1, 0, 0, 1}, nil, 4)
		require.NoError(t, err)
		defer v.Close()
		x, err := As[bool](v)
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, false, true}, read(t, x))
	})
}

// A read gives Go bools, whatever bytes an op has written.
func TestReadsGiveValidBools(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, err := Empty[bool](d, 6)
		require.NoError(t, err)
		defer x.Close()
		s.Enqueue(Op{Name: "odd", Args: []Arg{Out(x.View())}, CPU: func(a []Array, _ []byte) error {
			copy(a[0].Data, []byte{2, 1, 0, 255, 0, 128})
			return nil
		}})
		require.Equal(t, []byte{1, 1, 0, 1, 0, 1}, array.Bytes(read(t, x)))
		every := x.SliceStep(0, 0, 6, 2)
		defer every.Close()
		require.Equal(t, []byte{1, 0, 0}, array.Bytes(read(t, every)))
		got, err := every.ReadAsync(s).Wait(bg)
		require.NoError(t, err)
		require.Equal(t, []byte{1, 0, 0}, array.Bytes(got))
		m, err := NewMapped[bool](d, 6)
		require.NoError(t, err)
		defer m.Close()
		s.Enqueue(Op{Name: "odd", Args: []Arg{Out(m.Tensor().View())}, CPU: func(a []Array, _ []byte) error {
			copy(a[0].Data, []byte{2, 1, 0, 255, 0, 128})
			return nil
		}})
		require.NoError(t, s.Synchronize(bg))
		peeked := make([]bool, 5)
		require.NoError(t, m.Peek(peeked, 1))
		require.Equal(t, []byte{1, 0, 1, 0, 1}, array.Bytes(peeked))
	})
}
