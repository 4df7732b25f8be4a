package testmodel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// EachDevice runs fn as a subtest on the CPU backend and on every usable Vulkan
// device, opened with the given options; if Vulkan is compiled in, there must be
// one. It checks that no tensor stays alive and that the validation layer, if it is
// on, reported nothing.
func EachDevice(t *testing.T, fn func(t *testing.T, d *kompute.Device), opts ...kompute.Option) {
	t.Helper()
	devices, err := kompute.Devices()
	if VulkanBuilt {
		require.NoError(t, err, "no Vulkan device to test on")
		require.True(t, devices[0].Usable, devices[0].UnusableReason)
	}
	for _, info := range devices {
		if !info.Usable {
			continue
		}
		spec := "cpu"
		if info.Backend != "cpu" {
			spec = fmt.Sprintf("%s:%d", info.Backend, info.Index)
		}
		t.Run(spec, func(t *testing.T) {
			d, err := kompute.Open(spec, opts...)
			require.NoError(t, err)
			fn(t, d)
			require.Zero(t, d.Stats().LiveTensors, "tensors left open")
			require.Zero(t, d.Stats().ValidationMessages)
			require.NoError(t, d.Close())
		})
	}
}
