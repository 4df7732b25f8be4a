package kompute

import (
	"fmt"
	"runtime"
	"unsafe"
)

// algorithmResource is the native handle, separate from the Algorithm so that
// the cleanup does not keep the Algorithm alive.
type algorithmResource struct {
	d      *Device
	native native
	handle unsafe.Pointer
	closed bool
	users  int
}

// create creates the native kernel.
func (a *Algorithm) create(b *vulkanBackend, spirv []uint32) error {
	d := a.device
	err := d.using(func() error {
		handle, err := b.native.createAlgorithm(spirv, len(a.args), a.spec, 4*len(a.push), a.subgroup)
		if err != nil {
			return err
		}
		if err := a.check(b, handle); err != nil {
			b.native.destroyAlgorithm(handle)
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		a.handle = handle
		a.res = &algorithmResource{d: d, native: b.native, handle: handle}
		d.algorithms[a.res] = struct{}{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("algorithm: %w", err)
	}
	runtime.AddCleanup(a, func(r *algorithmResource) { r.close() }, a.res)
	return nil
}

// check sets the accesses of the tensors, and returns why they and the workgroups cannot be
// dispatched.
func (a *Algorithm) check(b *vulkanBackend, handle unsafe.Pointer) error {
	writes := b.native.algorithmWrites(handle)
	for i := range a.args {
		if writes&(1<<i) == 0 {
			continue
		}
		if a.args[i].View.st.readOnly {
			return fmt.Errorf("wrapped memory is read-only, and the shader may write binding %d, which it does not call readonly: %w", i, ErrInvalid)
		}
		a.args[i].Access = AccessReadWrite
	}
	if err := a.pin(); err != nil {
		return err
	}
	d, op := a.device, Op{Args: a.args}
	arrays := make([]nativeArray, len(a.args))
	defer func() {
		d.mu.Lock()
		op.unpin()
		d.mu.Unlock()
	}()
	for i := range a.args {
		if _, err := b.handle(a.args[i].View.st); err != nil {
			return err
		}
		d.mu.Lock()
		arrays[i].set(&a.args[i])
		d.mu.Unlock()
	}
	return b.native.checkAlgorithm(handle, arrays, a.groups)
}

// pin keeps the tensors from being freed.
func (a *Algorithm) pin() error {
	a.device.mu.Lock()
	defer a.device.mu.Unlock()
	for i := range a.args {
		v := a.args[i].View
		if err := v.usable(); err != nil {
			Op{Args: a.args[:i]}.unpin()
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		v.st.pins++
	}
	return nil
}

// Close frees the kernel after its last dispatch; the tensors stay. Closing
// again does nothing. Closing the device closes its algorithms.
func (a *Algorithm) Close() error {
	if a != nil && a.res != nil {
		a.res.close()
	}
	return nil
}

func (r *algorithmResource) close() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.free()
	}
}

// enter keeps the handle from being freed; it returns false if it was freed
// already.
func (r *algorithmResource) enter() bool {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.closed {
		return false
	}
	r.users++
	return true
}

func (r *algorithmResource) leave() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.users--
	r.free()
}

// free destroys the handle once it is closed and not in use.
func (r *algorithmResource) free() {
	if r.closed && r.users == 0 && r.handle != nil {
		r.native.destroyAlgorithm(r.handle)
		r.handle = nil
		delete(r.d.algorithms, r)
	}
}

// op returns one dispatch of the algorithm, with push, if given, instead of its
// push constants.
func (a *Algorithm) op(push []uint32) (Op, error) {
	if a == nil || a.res == nil {
		return Op{}, fmt.Errorf("the algorithm is nil, or no Manager made it: %w", ErrInvalid)
	}
	if len(push) == 0 {
		push = a.push
	}
	if len(push) != len(a.push) {
		return Op{}, fmt.Errorf("%d push constants for an algorithm made with %d: %w", len(push), len(a.push), ErrInvalid)
	}
	return Op{Name: "custom", Args: a.args, algorithm: a, groups: a.groups, push: push}, nil
}
