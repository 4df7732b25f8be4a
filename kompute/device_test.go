package kompute

import (
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSelectDevice(t *testing.T) {
	const uuid = "00112233445566778899aabbccddeeff"
	list := []DeviceInfo{
		{Index: 0, Name: "NVIDIA H200", UUID: uuid, Usable: true},
		{Index: 1, Name: "Old One", UnusableReason: "no timeline semaphores"},
		{Index: 2, Name: "llvmpipe (LLVM 15)", Usable: true},
	}
	for which, index := range map[string]int{
		"0": 0, "2": 2, "h200": 0, "LLVMPIPE": 2, uuid: 0, "00112233-4455-6677-8899-AABBCCDDEEFF": 0,
	} {
		info, err := selectDevice(list, which)
		require.NoError(t, err, which)
		require.Equal(t, index, info.Index, which)
	}
	_, err := selectDevice(list, "old")
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, "no timeline semaphores")
	_, err = selectDevice(list, "radeon")
	require.ErrorIs(t, err, ErrNoDevice)
	require.ErrorContains(t, err, `"radeon"; the Vulkan devices are 0 = NVIDIA H200, 1 = Old One, 2 = llvmpipe`)
}

// Reopen may be called by several goroutines at once, as other methods.
func TestReopenFromManyGoroutines(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				again, err := d.Reopen(bg)
				if assert.NoError(t, err) {
					assert.NoError(t, again.Close())
				}
			})
		}
		calls.Wait()
	})
}

func TestGPUsLeavesOutCPUDrivers(t *testing.T) {
	list := []DeviceInfo{
		{Name: "NVIDIA H200", Type: "discrete", Usable: true},
		{Name: "some chip", Type: "other", Usable: true},
		{Name: "llvmpipe (LLVM 15)", Type: "cpu", Usable: true},
		{Name: "old driver", Type: "cpu", UnusableReason: "no timeline semaphores"},
	}
	got := gpus(list)
	require.Equal(t, list[:2], got[:2])
	require.False(t, got[2].Usable)
	require.Contains(t, got[2].UnusableReason, "CPU driver")
	require.Equal(t, list[3], got[3], "its own reason stays")
	require.True(t, list[2].Usable, "the list of Devices is not touched")
}

func TestOpenRefusesUnknownSpecifications(t *testing.T) {
	for _, spec := range []string{"gpu", "cpu:1", "auto:x", "metal", "vulkan:", "vulkan: ", "cpu:", ":"} {
		_, err := Open(spec)
		require.ErrorIs(t, err, ErrNoDevice, spec)
	}
	d := openTest(t, " CPU ")
	require.Equal(t, "cpu", d.Backend())
	require.Positive(t, d.Info().MemoryTotal)
	require.NotEmpty(t, d.Info().Name)
	require.True(t, d.Info().Usable)
}

func TestMemoryBudget(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a := tensor(t, d, upTo(200))
		_, err := New(d, upTo(51))
		require.ErrorIs(t, err, ErrOutOfMemory)
		var sizes *MemoryError
		require.ErrorAs(t, err, &sizes)
		require.Equal(t, MemoryError{Requested: 204, Available: 200, Budget: 1000}, *sizes)

		s := newStream(t, d)
		out := Output[float32](s, 51)
		require.ErrorIs(t, out.Err(), ErrOutOfMemory)
		require.ErrorIs(t, s.Err(), ErrOutOfMemory)
		require.NoError(t, a.Close())
		tensor(t, d, upTo(250))
		require.EqualValues(t, 1000, d.Stats().PeakBytes)
	}, WithMemoryBudget(1000))
}

// Go would end the process at an allocation that is larger than the machine's memory.
func TestBudgetBeyondTheMachine(t *testing.T) {
	d := openTest(t, "cpu", WithMemoryBudget(math.MaxInt64))
	if d.Info().MemoryTotal == 0 {
		t.Skip("the machine's memory is not known here")
	}
	_, err := Zeros[float32](d, 1<<22, 1<<22)
	require.ErrorIs(t, err, ErrOutOfMemory)
}

// Unreachable tensors that were not closed make room for an op's result.
func TestOutOfMemoryCollectsForgottenTensors(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(200))
		for range 20 {
			run(s, "neg", x)
		}
		require.NoError(t, s.Synchronize(bg))
		require.NoError(t, s.Close())
		waitForTensors(t, d, 1)
	}, WithMemoryBudget(3000))
}

func TestForgottenTensorsAreCollected(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(100))
		func() {
			for range 5 {
				y := run(s, "neg", x)
				run(s, "add", x, y.Reshape(10, 10).Reshape(-1))
				_, err := Zeros[float32](d, 10)
				require.NoError(t, err)
			}
		}()
		require.NoError(t, s.Synchronize(bg))
		waitForTensors(t, d, 1)
		require.EqualValues(t, 400, d.Stats().LiveBytes)
	})
}

// waitForTensors lets the garbage collector bring the number of live tensors
// down to n.
func waitForTensors(t *testing.T, d *Device, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		runtime.GC()
		return d.Stats().LiveTensors == n
	}, waitLimit, waitStep)
}

func TestDeviceCloseWithEverythingOpen(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, err := New(d, upTo(10))
		require.NoError(t, err)
		y := run(s, "neg", x)
		s.Scope()
		z := run(s, "neg", y)
		require.NoError(t, d.Close())
		require.NoError(t, d.Close())

		for _, v := range []*Tensor[float32]{x, y, z} {
			_, err := v.Read(bg)
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, v.Write(bg, upTo(10)), ErrClosed)
			require.True(t, v.View().Closed())
			require.ErrorIs(t, v.Reshape(2, 5).Err(), ErrClosed)
			require.NoError(t, v.Close())
		}
		require.ErrorIs(t, s.Err(), ErrClosed)
		_, err = New(d, upTo(10))
		require.ErrorIs(t, err, ErrClosed)
		_, err = d.NewStream()
		require.ErrorIs(t, err, ErrClosed)
		require.NotNil(t, s.Stats().Fallbacks)
		require.NoError(t, s.Close())
	})
}
