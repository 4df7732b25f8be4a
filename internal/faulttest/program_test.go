//go:build cgo && !nogpu

package faulttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// When its device is lost, the program decode continues where it was, and reports that.
func TestDecodeReplacesALostDevice(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "decode")
	out, err := exec.Command("go", "build", "-o", program, "../../examples/decode").CombinedOutput()
	require.NoError(t, err, string(out))
	type report struct {
		IDs      []int `json:"generated_ids"`
		Backend  string
		Replaced int
	}
	// run makes a call of vkQueueSubmit fail, if it is not 0, and returns how many there were.
	run := func(call uint64, flags ...string) (got report, log string, calls uint64) {
		file := filepath.Join(dir, "control")
		require.NoError(t, os.RemoveAll(file))
		cmd := exec.Command(program, append([]string{"--device", "vulkan", "--json", "--prompt", "Hi", "--max-tokens", "24", "--temp", "0.8", "--seed", "4"}, flags...)...)
		cmd.Env = append(os.Environ(), "KOMPUTE_GO_FAULT_CONTROL="+file, "KOMPUTE_GO_FAULT_START=")
		if call > 0 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("KOMPUTE_GO_FAULT_START=vkQueueSubmit %d %d", deviceLost, call))
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		printed, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		require.NoError(t, json.Unmarshal(printed, &got))
		control, err := OpenControl(file)
		require.NoError(t, err)
		defer func() { require.NoError(t, control.Close()) }()
		return got, stderr.String(), control.Called("vkQueueSubmit")
	}
	want, _, calls := run(0)
	require.Zero(t, want.Replaced)
	got, log, _ := run(calls - 1)
	require.Equal(t, want.IDs, got.IDs)
	require.Equal(t, 1, got.Replaced)
	require.Contains(t, log, "the device was lost")
	got, log, _ = run(calls-1, "--replace-device", "0", "--cpu-if-lost")
	require.Equal(t, want.IDs, got.IDs)
	require.Equal(t, "cpu", got.Backend)
	require.Contains(t, log, "the device was lost")
}
