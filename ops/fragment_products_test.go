package ops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops/optest"
)

// TestFragmentProducts runs products by quantized_matmul_fragments: the kernel that takes small ones of some codes is
// disabled. On Vulkan devices that cannot make matrices in registers there is nothing to test.
func TestFragmentProducts(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			if spec == "cpu" {
				dev, err := kompute.Open(spec)
				require.NoError(t, err)
				defer func() { require.NoError(t, dev.Close()) }()
				optest.RunFragmentProducts(t, dev)
				return
			}
			dev, err := kompute.Open(spec, kompute.WithStrict(), kompute.WithDisabled("quantized_matmul_bytes_coopmat"))
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			made := func() *kompute.KernelVariant {
				all := dev.Kernels()
				return &all[slices.IndexFunc(all, func(k kompute.KernelVariant) bool { return k.Kernel == "quantized_matmul_fragments" })]
			}
			if made().State != kompute.KernelUsable {
				t.Skip("no matrices in registers")
			}
			optest.RunFragmentProducts(t, dev)
			if strings.Contains(dev.Info().Name, "NVIDIA") { // other drivers may have their elements elsewhere
				require.Positive(t, made().Calls)
			}
			require.Zero(t, dev.Stats().ValidationMessages)
		})
	}
}
