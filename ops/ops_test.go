package ops_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops/optest"
)

// TestMain draws fewer random cases than rapid's 100: every push runs them on
// every device, some of which are slow. A flag or RAPID_CHECKS asks for more.
func TestMain(m *testing.M) {
	checks := 40
	if n, err := strconv.Atoi(os.Getenv("RAPID_CHECKS")); err == nil {
		checks = n
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestConformance runs the suite on the CPU and on every Vulkan device.
func TestConformance(t *testing.T) {
	devices, err := kompute.Devices()
	if testmodel.VulkanBuilt {
		require.NoError(t, err, "no Vulkan device to test on")
	}
	for _, info := range devices {
		spec := info.Backend
		if spec == "vulkan" {
			spec += ":" + strconv.Itoa(info.Index)
		}
		t.Run(spec, func(t *testing.T) {
			if !info.Usable {
				t.Skipf("%s: %s", info.Name, info.Why)
			}
			dev, err := kompute.Open(spec, kompute.WithStrict())
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			optest.Run(t, dev)
			require.Zero(t, dev.Stats().ValidationMessages)
		})
	}
}
