package kompute

import (
	"runtime"
	"unsafe"
)

// resource is what must be freed for a storage. It is separate so that a
// cleanup can hold it without keeping the storage alive.
type resource struct {
	dev        *Device
	bytes      int
	native     unsafe.Pointer // handle of the native library; nil on the CPU backend
	replaced   []uintptr      // native tensors before native, see takeNative
	pinned     *runtime.Pinner
	released   bool
	prev, next *resource // of the device's list
}

// link counts a resource as live.
func (d *Device) link(r *resource) {
	d.live++
	d.liveBytes += int64(r.bytes)
	d.peakBytes = max(d.peakBytes, d.liveBytes)
	r.next = d.resources
	if r.next != nil {
		r.next.prev = r
	}
	d.resources = r
}

// unlink reverses link; calling it again does nothing.
func (d *Device) unlink(r *resource) {
	if r.released {
		return
	}
	r.released = true
	d.live--
	d.liveBytes -= int64(r.bytes)
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		d.resources = r.next
	}
	r.prev, r.next = nil, nil
}

// free frees the native library's part, once. dev.mu is held.
func (r *resource) free() {
	if r.native != nil {
		r.dev.freed = append(append(r.dev.freed, uintptr(r.native)), r.replaced...)
		r.native, r.replaced = nil, nil
		if !r.dev.freesLater {
			r.dev.freeNative()
		}
	}
	if r.pinned != nil {
		r.pinned.Unpin()
		r.pinned = nil
	}
}

// freeNative destroys the native handles that were freed. dev.mu is held.
func (d *Device) freeNative() {
	if len(d.freed) > 0 {
		d.backend.free(d.freed)
		d.freed = d.freed[:0]
	}
	d.freesLater = false
}

// addNet makes the garbage collector release storage that was never closed.
func (st *storage) addNet() {
	st.separateResource()
	runtime.AddCleanup(st, func(r *resource) {
		r.dev.mu.Lock()
		defer r.dev.mu.Unlock()
		if !r.released {
			r.dev.unlink(r)
			r.free()
		}
	}, st.res)
}

// separateResource moves the resource out of the storage, which must not be kept
// alive by the device's list.
func (st *storage) separateResource() {
	st.dev.mu.Lock()
	defer st.dev.mu.Unlock()
	if st.res != &st.resource {
		return
	}
	res := st.resource
	st.res, st.resource = &res, resource{}
	if res.released {
		return
	}
	if res.next != nil {
		res.next.prev = &res
	}
	if res.prev != nil {
		res.prev.next = &res
	} else {
		st.dev.resources = &res
	}
}
