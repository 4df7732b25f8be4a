package testmodel

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// EachDevice runs fn as a subtest on the CPU backend and on every usable Vulkan
// device; if Vulkan is compiled in, there must be one. It checks that no tensor stays
// alive and that the validation layer, if it is on, reported nothing. Devices are
// opened with the given options; without any, all tests of a process share those that
// are opened first, as strict ones, so that their kernels are compiled once.
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
			open := openShared
			if len(opts) > 0 {
				open = func(t *testing.T, spec string) *kompute.Device {
					d, err := kompute.Open(spec, opts...)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, d.Close()) })
					return d
				}
			}
			d := open(t, spec)
			fn(t, d)
			require.Zero(t, d.Stats().LiveTensors, "tensors left open")
			require.Zero(t, d.Stats().ValidationMessages)
		})
	}
}

// Whole asks for every case also where Vulkan runs on the CPU.
var Whole = os.Getenv("KOMPUTE_GO_TEST_WHOLE") != ""

// Some returns the cases to run on d: the first and every third after it where Vulkan runs on the CPU,
// since nearly all of the time goes into compiling the kernels of each case there.
func Some[T any](d *kompute.Device, cases ...T) (out []T) {
	step := 1
	if d.Backend() == "vulkan" && d.Info().Type == "cpu" && !Whole {
		step = 3
	}
	for i := 0; i < len(cases); i += step {
		out = append(out, cases[i])
	}
	return out
}

var (
	sharedMutex sync.Mutex
	shared      = make(map[string]*kompute.Device) // by what they are opened with
)

// openShared returns the process's device of this name, which stays open. A test that
// fails may have left anything behind: the next one gets a new device.
func openShared(t *testing.T, spec string) *kompute.Device {
	sharedMutex.Lock()
	defer sharedMutex.Unlock()
	key := spec + " " + os.Getenv("KOMPUTE_GO_FUSION_ON_CPU") // read by the shim when it opens a device
	if shared[key] == nil {
		d, err := kompute.Open(spec, kompute.WithStrict())
		require.NoError(t, err)
		shared[key] = d
	}
	t.Cleanup(func() {
		if t.Failed() {
			sharedMutex.Lock()
			defer sharedMutex.Unlock()
			delete(shared, key)
		}
	})
	return shared[key]
}
