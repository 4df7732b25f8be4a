package ops_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
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

var (
	only  = flag.String("device", "", "test this device alone, as kompute.Open takes it")
	table = flag.String("table", "", "write what was seen, by op and element type, to this file, or - for the output")
)

// specs names the devices to test: the CPU and every usable Vulkan device.
func specs(t testing.TB) []string {
	if *only != "" {
		return []string{*only}
	}
	devices, err := kompute.Devices()
	if testmodel.VulkanBuilt {
		require.NoError(t, err, "no Vulkan device to test on")
	}
	var out []string
	for _, info := range devices {
		switch {
		case info.Backend != "vulkan":
			out = append(out, info.Backend)
		case info.Usable:
			out = append(out, fmt.Sprintf("vulkan:%d", info.Index))
		default:
			t.Logf("%s is not usable: %s", info.Name, info.UnusableReason)
		}
	}
	return out
}

// TestConformance runs the suite, on each device.
func TestConformance(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			dev, err := kompute.Open(spec, kompute.WithStrict())
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			if *table != "" {
				report := &optest.Report{}
				defer func() { require.NoError(t, writeTable(dev, report)) }()
				optest.Run(t, dev, optest.WithReport(report))
			} else {
				optest.Run(t, dev)
			}
			require.Zero(t, dev.Stats().ValidationMessages)
		})
	}
}

// TestKernelVariants runs a share of the suite without the best variants of the kernels, so that the
// others are right as well, on devices of which they are the best ones.
func TestKernelVariants(t *testing.T) {
	for _, spec := range specs(t) {
		if spec == "cpu" {
			continue
		}
		for _, disabled := range [][]string{{"lanes", "subgroup"}, {"lanes", "narrow"}, {"lanes", "narrow", "subgroup"}} {
			t.Run(spec+" without "+strings.Join(disabled, ","), func(t *testing.T) {
				dev, err := kompute.Open(spec, kompute.WithDisabled(disabled...))
				require.NoError(t, err)
				defer func() { require.NoError(t, dev.Close()) }()
				optest.RunShare(t, dev, 32)
				require.Zero(t, dev.Stats().ValidationMessages)
				called := 0
				for _, v := range dev.Kernels() {
					if v.Calls > 0 && v.Kernel != "transfer" {
						called++
						require.Equal(t, kompute.KernelUsable, v.State, v)
						require.NotContains(t, disabled, v.Variant)
					}
				}
				require.Greater(t, called, 10)
			})
		}
	}
}

// writeTable appends a device's table to where the flag says.
func writeTable(dev *kompute.Device, r *optest.Report) error {
	out := os.Stdout
	if *table != "-" {
		f, err := os.OpenFile(*table, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	if _, err := fmt.Fprintf(out, "\n%s (%s)\n", dev.Info().Name, dev.Backend()); err != nil {
		return err
	}
	return r.WriteTable(out)
}
