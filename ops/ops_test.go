package ops_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
	share = flag.Int("share", 1, "run one case out of that many of the tables, and nothing else, as for a slow driver")
	masks = flag.Bool("masks", false, "run all cases of the tables on lesser devices, not a share")
	part  = flag.String("part", "", "with -masks, run one part of the cases, as 2/14, for that many processes side by side")
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
			if *share > 1 {
				optest.RunShare(t, dev, *share)
			} else if *table != "" {
				report := &optest.Report{}
				defer func() { require.NoError(t, writeTable(dev, report)) }()
				optest.Run(t, dev, optest.WithReport(report))
			} else if testmodel.Whole {
				optest.Run(t, dev, optest.WithEveryCase())
			} else {
				optest.Run(t, dev)
			}
			require.Zero(t, dev.Stats().ValidationMessages)
		})
	}
}

// lesser are devices that a Vulkan device is made to look like: without some features and
// kernels, so that on each of them other kernels, variants and launches are the best ones. Only
// the ops in fallbacks may have no kernel for some of their cases.
var lesser = []struct {
	masked, disabled, fallbacks []string
}{
	{disabled: []string{"lanes"}},
	{masked: []string{"dot8"}, disabled: []string{"lanes"}},
	{masked: []string{"subgroup", "timestamps", "shared_memory"}, disabled: []string{"lanes", "tiled"}, fallbacks: []string{"matmul", "quantized_matmul", "sample"}},
	{masked: []string{"storage16", "float16", "int8", "int16"}, disabled: []string{"lanes"}},
	{masked: []string{"storage16", "subgroup", "dot8", "coopmat", "shared_memory", "invocations", "queues", "push_constants", "bindings", "memory_budget", "memory_model", "subgroup_size"},
		fallbacks: []string{"sample"}},
}

// TestLesserDevices runs the suite on lesser devices: a share, or with -masks all of it.
// Each variant of the kernels that ops run must be chosen by some of them.
func TestLesserDevices(t *testing.T) {
	for _, spec := range specs(t) {
		if spec == "cpu" {
			continue
		}
		calls := make(map[string]uint64)
		usable := make(map[string]bool)
		for _, l := range lesser {
			t.Run(fmt.Sprintf("%s without %v", spec, slices.Concat(l.masked, l.disabled)), func(t *testing.T) {
				dev, err := kompute.Open(spec, kompute.WithMaskedFeatures(l.masked...), kompute.WithDisabled(l.disabled...))
				require.NoError(t, err)
				defer func() { require.NoError(t, dev.Close()) }()
				of, options := 160, []optest.Option{optest.WithFallbacks(l.fallbacks...)}
				if *masks {
					of = 1
					options = append(options, partOfCases(t)...)
				}
				optest.RunShare(t, dev, of, options...)
				require.Zero(t, dev.Stats().ValidationMessages)
				for _, v := range dev.Kernels() {
					calls[v.String()] += v.Calls
					if *part != "" && v.Calls > 0 {
						t.Logf("chosen: %s", v)
					}
					usable[v.String()] = usable[v.String()] || v.State == kompute.KernelUsable
					if v.Calls > 0 {
						require.Equal(t, kompute.KernelUsable, v.State, v)
					}
				}
			})
		}
		if *part == "" {
			requireChosen(t, usable, calls)
		}
	}
}

// partOfCases returns the part of the cases that -part asks for, if it does. A part need not
// choose every variant, so that it logs those that it chose.
func partOfCases(t *testing.T) []optest.Option {
	if *part == "" {
		return nil
	}
	var i, n int
	_, err := fmt.Sscanf(*part, "%d/%d", &i, &n)
	require.NoError(t, err, "-part=%s", *part)
	require.True(t, 1 <= i && i <= n, "-part=%s", *part)
	return []optest.Option{optest.WithPart(i-1, n)}
}

// forTests are variants that ops choose with KOMPUTE_GO_FUSION_ON_CPU alone, for tests on CPU drivers.
var forTests = []string{"quantized_matmul_bytes_coopmat.narrow_dot8"}

// requireChosen checks that of each kernel that was called every usable variant was.
func requireChosen(t *testing.T, usable map[string]bool, calls map[string]uint64) {
	called := make(map[string]bool)
	for variant, n := range calls {
		kernel, _, _ := strings.Cut(variant, ".")
		called[kernel] = called[kernel] || n > 0
	}
	for variant, n := range calls {
		kernel, _, _ := strings.Cut(variant, ".")
		if usable[variant] && called[kernel] && !slices.Contains(forTests, variant) {
			assert.Positive(t, n, "%s is never chosen", variant)
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
