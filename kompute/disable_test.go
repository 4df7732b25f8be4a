package kompute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisabledOps(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, opts ...Option) *Device{
		"option": func(t *testing.T, opts ...Option) *Device {
			return vulkanOrSkip(t, append(opts, WithDisabledOps("unary", " copy", ""))...)
		},
		"environment": func(t *testing.T, opts ...Option) *Device {
			t.Setenv(disableVariable, "copy, unary,")
			return vulkanOrSkip(t, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			s := newStream(t, d)
			x := tensor(t, d, upTo(4))
			y := closing(t, run(s, "neg", closing(t, run(s, "add", x, x))))
			z := closing(t, run(s, "add", y, x))
			require.Equal(t, []float32{0, -1, -2, -3}, read(t, z))
			require.Equal(t, map[string]map[string]int{"unary": {"disabled": 1}}, s.Stats().Fallbacks)
			require.Equal(t, FallbackMoves{Waits: 1, Downloads: 1, DownloadBytes: 16, Uploads: 1, UploadBytes: 16}, s.Stats().FallbackMoves)

			_, err := s.Capture(func(s *Stream) { closing(t, run(s, "neg", x)) })
			require.ErrorIs(t, err, ErrCapture)
			require.ErrorIs(t, err, ErrUnsupported)
			require.ErrorContains(t, err, "disabled")

			s = newStream(t, open(t, WithStrict()))
			closing(t, run(s, "neg", tensor(t, s.Device(), upTo(4))))
			require.ErrorIs(t, s.Err(), ErrUnsupported)
			require.ErrorContains(t, s.Err(), "disabled")
		})
	}
}

// What the host writes over a fallback's result, and what the device does, move
// nothing for that fallback.
func TestFallbackMovesEndWithTheContent(t *testing.T) {
	d := vulkanOrSkip(t, WithDisabledOps("unary"))
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "neg", x))
	moves := FallbackMoves{Uploads: 1, UploadBytes: 16} // y, which is written back at once
	require.Equal(t, moves, s.Stats().FallbackMoves)
	require.NoError(t, y.Write(bg, upTo(4)))
	require.Equal(t, []float32{0, 2, 4, 6}, read(t, closing(t, run(s, "add", y, x))))
	require.Equal(t, moves, s.Stats().FallbackMoves)
}

func TestDisabledOpsMustExist(t *testing.T) {
	for _, name := range []string{"no_such_op", "projection", "Neg"} {
		_, err := Open("vulkan", WithDisabledOps("unary", name))
		if errors.Is(err, errNotBuilt) {
			break
		}
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, name)
	}
	d, err := Open("cpu", WithDisabledOps("neg"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
}
