package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/fusion"
)

// A masked device has neither the features nor the kernels that need them.
func TestMaskedFeatures(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *Device{
		"option": func(t *testing.T) *Device { return vulkanOrSkip(t, WithMaskedFeatures("storage16", " subgroup ")) },
		"environment": func(t *testing.T) *Device {
			t.Setenv(maskVariable, "storage16,subgroup,")
			return vulkanOrSkip(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			for _, v := range d.Kernels() {
				if v.named("narrow") || v.named("subgroup") {
					require.Equal(t, KernelMissing, v.State, v)
				}
			}
			s := newStream(t, d)
			closing(t, run(s, "neg", tensor(t, d, upTo(4))))
			require.NoError(t, s.Synchronize(bg))
			require.EqualValues(t, 1, d.Stats().KernelCalls["unary.base"])
		})
	}
}

func TestMaskedTimestampsAndMemory(t *testing.T) {
	d := vulkanOrSkip(t, WithMaskedFeatures("timestamps", "bindings", "queues"))
	s := newStream(t, d)
	require.ErrorIs(t, s.StartTiming(), ErrUnsupported)
	x := tensor(t, d, upTo(4))
	_, err := captureTest(t, s, func(s *Stream) { runInto(s, "neg", x, x) }).Profile(bg, 1)
	require.ErrorIs(t, err, ErrUnsupported)
	require.EqualValues(t, 128<<20, d.Info().MaxTensorBytes)
	large, err := Empty[float32](d, 128<<20/4)
	require.NoError(t, err)
	require.NoError(t, large.Close())
	_, err = Empty[float32](d, 128<<20/4+1)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestMasksAndPassesMustExist(t *testing.T) {
	vulkanOrSkip(t)
	_, err := Open("vulkan", WithMaskedFeatures("queues", "warp_drive"))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "warp_drive")
	require.ErrorContains(t, err, "timestamps")
	for _, device := range []string{"cpu", "vulkan"} {
		_, err = Open(device, WithoutFusion("gate_up", "no_pass"))
		require.ErrorIs(t, err, ErrInvalid, device)
		require.ErrorContains(t, err, "norm_projection", device)
	}
}

// Every pass can be left out on every backend, whether or not it has it.
func TestWithoutFusion(t *testing.T) {
	for _, names := range [][]string{{"dead_ops"}, {"memory_plan", "qkv"}, {"all"}, append(fusion.Passes(), "memory_plan"), append(fusion.Passes(), fusion.NativePasses...)} {
		want := uint64(2)
		if names[0] == "memory_plan" {
			want = 1
		}
		onDevices(t, func(t *testing.T, d *Device) {
			s := newStream(t, d)
			x := tensor(t, d, upTo(4))
			r := captureTest(t, s, func(s *Stream) {
				run(s, "neg", x) // nobody sees it
				runInto(s, "neg", x, x)
			})
			require.Equal(t, want, r.Stats().FusedOps, names)
		}, WithoutFusion(names...))
	}
}
