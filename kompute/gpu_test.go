//go:build cgo && !nogpu

package kompute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// errNotBuilt never happens in this build.
var errNotBuilt = errors.New("built without Vulkan")

func TestDevicesListsVulkanFirstAndTheCPULast(t *testing.T) {
	list, err := Devices()
	require.NoError(t, err)
	require.Greater(t, len(list), 1)
	for i, info := range list[:len(list)-1] {
		require.Equal(t, "vulkan", info.Backend)
		require.Equal(t, i, info.Index)
		require.NotEmpty(t, info.Name)
		require.Len(t, info.UUID, 32)
		require.Positive(t, info.MaxTensorBytes)
	}
	require.Equal(t, "cpu", list[len(list)-1].Backend)
}

func TestOpenByIndexNameAndUUID(t *testing.T) {
	list, err := Devices()
	require.NoError(t, err)
	info := list[0]
	for _, spec := range []string{"vulkan", "vulkan:0", "vulkan:" + info.Name[:4], "vulkan:" + info.UUID} {
		d := openTest(t, spec)
		require.Equal(t, info.UUID, d.Info().UUID, spec)
		require.Empty(t, d.NoGPUReason())
	}
	_, err = Open("vulkan:no such name")
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, info.Name)
	_, err = Open("vulkan:1000")
	require.ErrorIs(t, err, ErrNoDevice)
}

// "auto" opens the best GPU, or the CPU backend if there are only CPU drivers: those
// are opened only by name.
func TestAutoNeverOpensACPUDriver(t *testing.T) {
	list, err := Devices()
	require.NoError(t, err)
	d := openTest(t, "auto", WithMemoryBudget(12345))
	for _, info := range list {
		if info.Usable && info.Type != "cpu" {
			require.Equal(t, info.UUID, d.Info().UUID)
			require.Empty(t, d.NoGPUReason())
			return
		}
	}
	require.Equal(t, "cpu", d.Backend())
	require.Contains(t, d.NoGPUReason(), "no usable GPU")
	require.Contains(t, d.NoGPUReason(), list[0].Name)
	_, err = New(d, make([]float32, 5000))
	require.ErrorIs(t, err, ErrOutOfMemory, "the options count there too")
	require.Equal(t, "vulkan", openTest(t, "vulkan").Backend())
}
