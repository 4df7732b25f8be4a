package kompute

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Manager is the entry point of Kompute's API: it opens a device and makes
// algorithms and sequences on it. Tensors are made by New, Zeros and the like
// with Manager.Device.
type Manager struct{ device *Device }

// AnyTensor is a tensor of any element type.
type AnyTensor interface {
	View() *View
	Err() error
}

// NewManager opens a device as Open does. Algorithms need a Vulkan device.
func NewManager(spec string, opts ...Option) (*Manager, error) {
	d, err := Open(spec, opts...)
	if err != nil {
		return nil, err
	}
	return &Manager{d}, nil
}

// Device returns the manager's device.
func (m *Manager) Device() *Device {
	if m == nil {
		return nil
	}
	return m.device
}

// Close closes the device and everything made on it.
func (m *Manager) Close() error { return m.Device().Close() }

// AsUint32 returns the bits of each value as a uint32, the form in which
// specialization and push constants are passed.
func AsUint32[T float32 | int32 | uint32](values ...T) []uint32 {
	out := make([]uint32, len(values))
	for i := range values {
		out[i] = *(*uint32)(unsafe.Pointer(&values[i]))
	}
	return out
}

// Algorithm is the caller's own kernel with the tensors it works on.
type Algorithm struct {
	device   *Device
	handle   unsafe.Pointer
	args     []Arg
	groups   [3]uint32
	grouped  bool // groups are given
	spec     []uint32
	push     []uint32
	subgroup uint32
	res      *algorithmResource
}

// AlgorithmOption changes how [Manager.Algorithm] makes an algorithm.
type AlgorithmOption func(*Algorithm)

// WithWorkgroups sets how many workgroups a dispatch has along x, y and z. The
// default is one workgroup for each element of the first tensor, along x.
func WithWorkgroups(x, y, z uint32) AlgorithmOption {
	return func(a *Algorithm) { a.groups, a.grouped = [3]uint32{x, y, z}, true }
}

// WithSpecializationConstants sets the constants 0, 1, …; [AsUint32] converts them. Those that
// the shader has must be booleans or have 32 bits, and none may come after its last. A value for
// a number that the shader leaves out before that has no effect.
func WithSpecializationConstants(values ...uint32) AlgorithmOption {
	return func(a *Algorithm) { a.spec = slices.Clone(values) }
}

// WithPushConstants sets the push constants, which a dispatch may replace with the
// same number of others; [AsUint32] converts them. There must be
// at least as many as the shader has; more have no effect.
func WithPushConstants(values ...uint32) AlgorithmOption {
	return func(a *Algorithm) { a.push = slices.Clone(values) }
}

// WithSubgroupSize sets the subgroup size that the kernel runs with, on a device that lets
// it choose: a power of two from DeviceInfo.MinSubgroupSize to MaxSubgroupSize. Without
// it the driver chooses.
func WithSubgroupSize(size uint32) AlgorithmOption {
	return func(a *Algorithm) { a.subgroup = size }
}

// Algorithm makes a kernel from SPIR-V with the entry point "main". Tensor i is
// bound to binding i of descriptor set 0, which must be a storage buffer in the shader; each
// tensor must be contiguous and start at an offset that the device allows for bindings, as
// whole tensors do.
//
// A binding that the shader declares as readonly (in SPIR-V: NonWritable) only reads its
// tensor; any other counts as read and written. Wrapped memory, which is read-only, can only be
// bound where the shader says readonly.
//
// Errors are ErrUnsupported on the CPU backend and for what the device does not support
// or was not opened with (WithFeatures), ErrInvalid for unusable SPIR-V, tensors or numbers
// of workgroups, ErrDevice for tensors of another device, or the driver's.
func (m *Manager) Algorithm(tensors []AnyTensor, spirv []uint32, options ...AlgorithmOption) (*Algorithm, error) {
	if m.Device().made() == noDevice {
		return nil, fmt.Errorf("an algorithm: %w", errNilDevice)
	}
	b, vulkan := m.device.backend.(*vulkanBackend)
	if !vulkan {
		return nil, fmt.Errorf("an algorithm needs a Vulkan device, this is %q: %w", m.device.Backend(), ErrUnsupported)
	}
	a := &Algorithm{device: m.device}
	for _, set := range options {
		if set != nil {
			set(a)
		}
	}
	for i, t := range tensors {
		if err := a.bind(t); err != nil {
			return nil, fmt.Errorf("tensor %d of an algorithm: %w", i, err)
		}
	}
	if err := a.setGroups(); err != nil {
		return nil, err
	}
	if len(spirv) == 0 {
		return nil, fmt.Errorf("an algorithm without SPIR-V: %w", ErrInvalid)
	}
	if err := a.create(b, spirv); err != nil {
		return nil, err
	}
	return a, nil
}

// bind adds a tensor, with its access still to be set.
func (a *Algorithm) bind(t AnyTensor) error {
	if t == nil || t.View() == nil {
		return fmt.Errorf("nil: %w", ErrInvalid)
	}
	if err := t.Err(); err != nil {
		return err
	}
	v := t.View()
	if v.st.dev != a.device {
		return fmt.Errorf("a tensor on %s: %w", v.st.dev.info.Name, ErrDevice)
	}
	a.args = append(a.args, In(v))
	return nil
}

// setGroups sets the default number of workgroups.
func (a *Algorithm) setGroups() error {
	if a.grouped || len(a.args) == 0 {
		return nil
	}
	n := a.args[0].View.size
	if uint64(n) > math.MaxUint32 {
		return fmt.Errorf("an algorithm with a workgroup for each of %d elements; WithWorkgroups sets fewer: %w", n, ErrInvalid)
	}
	a.groups = [3]uint32{uint32(n), 1, 1}
	return nil
}

// Sequence makes an empty sequence with its own stream. It is freed by its
// Close, or with the manager.
func (m *Manager) Sequence() *Sequence {
	q := &Sequence{device: m.Device()}
	q.stream, q.err = q.device.NewStream()
	return q
}
