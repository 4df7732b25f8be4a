package kompute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Devices lists what Open can open: Vulkan devices, best first (discrete,
// integrated, virtual, CPU drivers), and last the CPU backend, which is always
// available. The error reports why Vulkan is missing; the list is valid even
// then.
func Devices() ([]DeviceInfo, error) {
	list, err := vulkanDevices()
	return append(list, cpuInfo()), err
}

// Open opens a device:
//
//	"auto"         the best usable GPU, else the CPU backend (see Device.NoGPUReason);
//	               never a CPU driver of Vulkan such as lavapipe, which is slower. If a
//	               GPU refuses the options (ErrInvalid), or lacks a feature of
//	               WithFeatures (ErrUnsupported), Open fails instead
//	"cpu"          the CPU backend
//	"vulkan"       the best usable Vulkan device, which may be a CPU driver
//	"vulkan:1"     the Vulkan device with this index in Devices
//	"vulkan:NAME"  the first whose name contains NAME
//	"vulkan:UUID"  the one with this UUID, 32 hex digits, dashes or not
//
// Case does not matter. An empty specification is "auto". A device requested by name is never
// replaced by another: the error is ErrNoVulkan or ErrNoDevice, with the
// reason, or the driver's.
func Open(spec string, opts ...Option) (*Device, error) {
	o := makeOptions(opts)
	if err := o.checkPasses(); err != nil {
		return nil, fmt.Errorf("open %q: %w", spec, err)
	}
	d, err := open(spec, o)
	if err != nil {
		return nil, err
	}
	d.reopen = func() (*Device, error) {
		if uuid := d.info.UUID; uuid != "" {
			return Open("vulkan:"+uuid, opts...)
		}
		return Open(spec, opts...)
	}
	return d, nil
}

// Reopen closes the device, as Shutdown does, and opens the same one again with the
// same options: what to do with one that is lost. Nothing that was on it is on the new
// one. Errors are the context's and those of Open; either way the device is closed.
func (d *Device) Reopen(ctx context.Context) (*Device, error) {
	if d = d.made(); d == noDevice {
		return nil, errNilDevice
	}
	_ = d.Shutdown(ctx) // returns the streams' errors
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.reopen()
}

func open(spec string, o options) (*Device, error) {
	backend, which, named := strings.Cut(strings.TrimSpace(spec), ":")
	if which = strings.TrimSpace(which); named && which == "" { // as of a variable that is not set
		backend = spec
	}
	switch strings.ToLower(backend) {
	case "", "auto":
		if which == "" {
			return openAuto(o)
		}
	case "cpu":
		if which == "" {
			return openCPU(o), nil
		}
	case "vulkan":
		d, err := openNamed(which, o)
		if err != nil {
			return nil, fmt.Errorf("open %q: %w", spec, err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("open %q: %w: want auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID", spec, ErrNoDevice)
}

// openAuto opens the best GPU, or the CPU backend if no GPU can be opened; a
// CPU driver of Vulkan is slower than the CPU backend. Any other failure, such
// as a native library of another build, is reported instead of hidden behind a
// slower backend.
func openAuto(o options) (*Device, error) {
	list, err := vulkanDevices()
	if err == nil {
		var d *Device
		if d, err = openFirst("GPU", gpus(list), o); err == nil {
			return d, nil
		}
	}
	if !o.allowCPU(err) {
		return nil, err
	}
	d := openCPU(o)
	d.noGPUReason = err.Error()
	return d, nil
}

// allowCPU reports whether the CPU backend may take the place of a GPU that failed to open with
// err: not if the options are wrong, or ask for a feature that the GPU lacks.
func (o *options) allowCPU(err error) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrLibrary) || len(o.features) > 0 && errors.Is(err, ErrUnsupported) {
		return false
	}
	return errors.Is(err, ErrNoVulkan) || errors.Is(err, ErrNoDevice)
}

// gpus returns list with CPU drivers marked as not usable.
func gpus(list []DeviceInfo) []DeviceInfo {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Type == "cpu" && list[i].Usable {
			list[i].Usable, list[i].UnusableReason = false, "a CPU driver, slower than the CPU backend"
		}
	}
	return list
}

// openNamed opens the Vulkan device that which selects, or the best one.
func openNamed(which string, o options) (*Device, error) {
	list, err := vulkanDevices()
	if err != nil {
		return nil, err
	}
	if which == "" {
		return openFirst("Vulkan device", list, o)
	}
	info, err := selectDevice(list, which)
	if err != nil {
		return nil, err
	}
	return openVulkan(info, o)
}

// openFirst opens the first usable device of list; kind names what was searched
// for in the error.
func openFirst(kind string, list []DeviceInfo, o options) (*Device, error) {
	var reasons []error
	for _, info := range list {
		if !info.Usable {
			reasons = append(reasons, fmt.Errorf("%s: %s", info.Name, info.UnusableReason))
			continue
		}
		d, err := openVulkan(info, o)
		if err == nil {
			return d, nil
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", info.Name, err))
	}
	return nil, &noneUsableError{kind, errors.Join(reasons...)}
}

// noneUsableError is an ErrNoDevice that lists why each device is not usable.
type noneUsableError struct {
	kind    string
	reasons error
}

func (e *noneUsableError) Error() string { return fmt.Sprintf("no usable %s: %v", e.kind, e.reasons) }

func (e *noneUsableError) Unwrap() []error { return []error{ErrNoDevice, e.reasons} }

// selectDevice finds a device by index, UUID or part of its name.
func selectDevice(list []DeviceInfo, which string) (DeviceInfo, error) {
	match := func(info DeviceInfo) bool {
		return strings.Contains(strings.ToLower(info.Name), strings.ToLower(which))
	}
	if index, err := strconv.Atoi(which); err == nil {
		match = func(info DeviceInfo) bool { return info.Index == index }
	} else if uuid := strings.ToLower(strings.ReplaceAll(which, "-", "")); isUUID(uuid) {
		match = func(info DeviceInfo) bool { return info.UUID == uuid }
	}
	var names []string
	for _, info := range list {
		names = append(names, fmt.Sprintf("%d = %s", info.Index, info.Name))
		if !match(info) {
			continue
		}
		if !info.Usable {
			return info, fmt.Errorf("%w: %s cannot be used: %s", ErrNoDevice, info.Name, info.UnusableReason)
		}
		return info, nil
	}
	return DeviceInfo{}, fmt.Errorf("%w: %q; the Vulkan devices are %s", ErrNoDevice, which, strings.Join(names, ", "))
}

func isUUID(s string) bool {
	if len(s) != 32 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
