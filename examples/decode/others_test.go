package main

import (
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
)

// After the answers there is a line for every other device that works.
func TestCompareDevices(t *testing.T) {
	devices, _ := kompute.Devices()
	others := otherDevices(devices, kompute.DeviceInfo{Backend: "cpu"})
	out := runArgs(t, "--device", "cpu", "--prompt", "Hi", "--max-tokens", "4", "--compare-devices")
	require.Zero(t, out.code, out.stderr)
	lines := regexp.MustCompile(`(?m)^.+ \((cpu|vulkan)\): first token after \S+s, \d+\.\d tokens/s$`).FindAllString(out.stdout, -1)
	require.Len(t, lines, len(others), out.stdout)
	for i, d := range others {
		require.Contains(t, lines[i], d.Name+" ("+d.Backend+"): ")
	}
	for _, d := range others[:min(len(others), 1)] {
		out := runArgs(t, "--device", deviceSpec(d), "--prompt", "Hi", "--max-tokens", "4", "--compare-devices")
		require.Zero(t, out.code, out.stderr)
		require.Regexp(t, `(?m)^.+ \(cpu\): first token after \S+s, \d+\.\d tokens/s$`, out.stdout)
	}
}

func TestOtherDevices(t *testing.T) {
	gpu := kompute.DeviceInfo{Backend: "vulkan", Index: 0, Usable: true}
	broken := kompute.DeviceInfo{Backend: "vulkan", Index: 1}
	driver := kompute.DeviceInfo{Backend: "vulkan", Index: 2, Usable: true}
	cpu := kompute.DeviceInfo{Backend: "cpu", Index: 0, Usable: true}
	all := []kompute.DeviceInfo{gpu, broken, driver, cpu}
	require.Equal(t, []kompute.DeviceInfo{driver, cpu}, otherDevices(all, gpu))
	require.Equal(t, []kompute.DeviceInfo{gpu, driver}, otherDevices(all, cpu))
	require.Equal(t, "vulkan:2", deviceSpec(driver))
	require.Equal(t, "cpu", deviceSpec(cpu))
}

// Cancelled, it ends without a line of a device that was not measured.
func TestCompareDevicesCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := runWith(ctx, "", "--device", "cpu", "--prompt", "Hi", "--compare-devices")
	require.Equal(t, cli.ExitInterrupted, out.code, out.stderr)
	require.NotContains(t, out.stdout, "): ")
}

func TestCompareDevicesExcludes(t *testing.T) {
	for _, other := range []string{"--json", "--quiet", "--chat"} {
		out := runArgs(t, "--compare-devices", other)
		require.Equal(t, 1, out.code)
		require.Contains(t, out.stderr, "--compare-devices: excludes --json, --quiet and --chat")
	}
}
