package kompute

import "log/slog"

// KernelState says whether a device uses a variant of a kernel.
type KernelState uint32

// The states of a KernelVariant; they match kpx_variant_state.
const (
	KernelUsable   KernelState = iota // of a kernel's usable variants, the first one runs
	KernelMissing                     // the device lacks a feature that it needs
	KernelDisabled                    // by WithDisabled or KOMPUTE_GO_DISABLE
	KernelRefused                     // by the driver, for some calls or all; other variants serve those
)

// KernelVariant is one compiled form of a kernel, on a device.
type KernelVariant struct {
	Kernel, Variant string
	State           KernelState
	Reason          string // why it is not usable: the features that it needs, or the driver's error
	Calls           uint64 // dispatches submitted so far; replays of a region count each time
}

// String returns "kernel.variant", as WithDisabled takes it.
func (v KernelVariant) String() string { return v.Kernel + "." + v.Variant }

// Kernels lists the variants of all kernels of this build as the device has them, the best of each
// kernel first. On the CPU device and on a closed one the list is empty.
func (d *Device) Kernels() []KernelVariant {
	d = d.made()
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, is := d.backend.(*vulkanBackend); is && !d.closed.Load() {
		return b.native.kernels()
	}
	return nil
}

// KernelCode returns the SPIR-V of the best usable variant of a kernel, for an Algorithm, or nil if
// there is none. It is meant for the kernels that no op runs: probe_stream, probe_matrix and
// probe_float, which show what a device reaches (shaders/ has their bindings).
func (d *Device) KernelCode(kernel string) []uint32 {
	d = d.made()
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, is := d.backend.(*vulkanBackend); is && !d.closed.Load() {
		return b.native.kernelCode(kernel)
	}
	return nil
}

// addKernels adds what Kernels knows.
func (out *DeviceStats) addKernels(variants []KernelVariant) {
	for _, v := range variants {
		if v.Calls > 0 {
			if out.KernelCalls == nil {
				out.KernelCalls = make(map[string]uint64)
			}
			out.KernelCalls[v.String()] = v.Calls
		}
		if v.State == KernelRefused {
			if out.RefusedKernels == nil {
				out.RefusedKernels = make(map[string]string)
			}
			out.RefusedKernels[v.String()] = v.Reason
		}
	}
}

// logRefusals logs the variants that the driver has refused since the last call.
func (b *vulkanBackend) logRefusals() {
	n := b.native.refusals()
	if n == b.refused.Load() || b.refused.Swap(n) == n || b.d.opts.logger == nil {
		return
	}
	for _, v := range b.native.kernels() {
		if v.State == KernelRefused && b.firstRefusal(v.String()) {
			b.d.opts.logger.Warn("the driver refuses a kernel", slog.String("kernel", v.Kernel), slog.String("variant", v.Variant),
				slog.String("reason", v.Reason), slog.String("device", b.d.info.Name))
		}
	}
}

// firstRefusal reports whether the variant's refusal was not logged before.
func (b *vulkanBackend) firstRefusal(variant string) bool {
	_, known := b.logged.LoadOrStore(variant, true)
	return !known
}
