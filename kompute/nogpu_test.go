//go:build !cgo || nogpu

package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltWithoutVulkan(t *testing.T) {
	list, err := Devices()
	require.ErrorIs(t, err, ErrNoVulkan)
	require.Len(t, list, 1)
	require.Equal(t, "cpu", list[0].Backend)

	_, err = Open("vulkan:0")
	require.ErrorIs(t, err, ErrNoVulkan)
	require.ErrorContains(t, err, "built without Vulkan")

	d := openTest(t, "auto")
	require.Equal(t, "cpu", d.Backend())
	require.Contains(t, d.NoGPUReason(), "built without Vulkan")
}
