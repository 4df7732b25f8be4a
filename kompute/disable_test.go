package kompute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisabled(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, opts ...Option) *Device{
		"option": func(t *testing.T, opts ...Option) *Device {
			return vulkanOrSkip(t, append(opts, WithDisabled("unary", " copy", ""))...)
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
			require.Equal(t, FallbackMoves{Waits: 1, Downloads: 1, DownloadBytes: 16, Uploads: 1, UploadBytes: 16}, movesOf(s.Stats(), "unary"))

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

// Host writes over a fallback's result, and work on the device, do not count as
// copies of that fallback.
func TestFallbackMovesEndWithTheContent(t *testing.T) {
	d := vulkanOrSkip(t, WithDisabled("unary"))
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	y := closing(t, run(s, "neg", x))
	moves := FallbackMoves{Uploads: 1, UploadBytes: 16} // y, which is written back at once
	require.Equal(t, moves, movesOf(s.Stats(), "unary"))
	require.NoError(t, y.Write(bg, upTo(4)))
	require.Equal(t, []float32{0, 2, 4, 6}, read(t, closing(t, run(s, "add", y, x))))
	require.Equal(t, moves, movesOf(s.Stats(), "unary"))
}

func TestDisabledMustExist(t *testing.T) {
	for _, name := range []string{"no_such_op", "attention_projection", "Neg", "softmax.none", "transfer"} {
		_, err := Open("vulkan", WithDisabled("unary", name))
		if errors.Is(err, errNotBuilt) {
			break
		}
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, name)
		for _, exists := range []string{"sdpa", "quantized_matmul_vec", "subgroup"} {
			require.ErrorContains(t, err, exists)
		}
	}
	d, err := Open("cpu", WithDisabled("neg"))
	require.NoError(t, err)
	require.Empty(t, d.Kernels())
	require.NoError(t, d.Close())
}

func TestDisabledKernels(t *testing.T) {
	state := func(t *testing.T, disabled, variant string) KernelVariant {
		d := vulkanOrSkip(t, WithDisabled(disabled))
		for _, v := range d.Kernels() {
			if v.String() == variant {
				return v
			}
		}
		t.Fatalf("there is no %s", variant)
		return KernelVariant{}
	}
	for disabled, variant := range map[string]string{
		"subgroup":             "softmax.narrow_subgroup",
		"vec":                  "quantized_matmul_vec.base",
		"projection":           "projection.base", // Go has no op of that name
		"sdpa_tiled":           "sdpa_tiled.base",
		"rms_norm.base":        "rms_norm.base",
		"quantized_matmul_vec": "quantized_matmul_vec.base",
	} {
		v := state(t, disabled, variant)
		if v.State != KernelMissing {
			require.Equal(t, KernelDisabled, v.State, "%s with %s disabled", variant, disabled)
		}
	}
	require.NotEqual(t, KernelDisabled, state(t, "softmax", "softmax.base").State, "the op of that name is disabled, not its kernels")
}

// A disabled variant leaves its work to the next one, which the statistics show.
func TestKernelCalls(t *testing.T) {
	d := vulkanOrSkip(t)
	run1 := func(d *Device) map[string]uint64 {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		closing(t, run(s, "neg", x))
		require.NoError(t, s.Synchronize(bg))
		require.Empty(t, s.Stats().Fallbacks)
		return d.Stats().KernelCalls
	}
	calls := run1(d)
	best := "unary.narrow"
	if calls[best] == 0 {
		t.Skip("the device has no 16-bit storage")
	}
	require.EqualValues(t, 1, calls[best])
	calls = run1(vulkanOrSkip(t, WithDisabled(best)))
	require.Zero(t, calls[best])
	require.EqualValues(t, 1, calls["unary.base"])
}
