package kompute

import (
	"context"
	"errors"
	"fmt"
)

// withHost calls f with host memory that holds the newest content of the bytes
// lo to hi, and the offset at which that memory starts in the storage. It waits
// for the op that writes the storage last, and for no other work of its stream.
func (st *storage) withHost(ctx context.Context, lo, hi int, f func(mem []byte, base int)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := st.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if err := st.usable(); err != nil {
			return err
		}
		if err := st.hostAccess("read"); err != nil {
			return err
		}
		if err := st.contentErr(); err != nil {
			return err
		}
		// What is held back would keep later reads from running: it is waited for first.
		held := d.gates > 0 && st.writer.pending()
		if st.onlyOnDevice() && lo < hi && st.fetched(hi-lo) <= fetchLimit && !held {
			return st.fetch(ctx, lo, hi, f)
		}
		if st.source == nil || !st.writer.pending() {
			break
		}
		if err := d.waitUnlocked(ctx, st.writer); err != nil {
			return err
		}
	}
	st.acquire()
	defer st.releaseBusy()
	d.users++
	defer d.leave()
	d.mu.Unlock()
	mem, base, err := d.backend.load(st, lo, hi)
	if err == nil {
		f(mem, base)
	}
	d.mu.Lock()
	return err
}

// onlyOnDevice reports whether the host has to fetch the content. dev.mu is held.
func (st *storage) onlyOnDevice() bool { return st.deviceValid && !st.hostValid }

// Up to so many bytes, a read is one submission and one wait, into as much
// staging memory; beyond that it goes in pieces, after the work.
const fetchLimit = 32 << 20

// fetched is how many bytes come down when the host wants n of them: these alone
// if they are few, else all, and the host's copy is current from then on.
func (st *storage) fetched(n int) int {
	if n <= st.bytes/2 {
		return n
	}
	return st.bytes
}

// fetch is withHost for content that only the device has. d.mu is held, and
// released meanwhile.
func (st *storage) fetch(ctx context.Context, lo, hi int, f func(mem []byte, base int)) error {
	d, writer := st.dev, st.writer
	whole := st.fetched(hi-lo) == st.bytes
	if whole {
		lo, hi = 0, st.bytes
	} else {
		lo &^= 15
	}
	st.pins++
	defer st.unpin()
	d.users++
	defer d.leave()
	d.transfers.looked(false)
	mem, err := d.fetchUnlocked(ctx, st, lo, hi)
	if err != nil {
		if st.source != nil && errors.Is(err, ErrDeviceLost) {
			st.source.fail(err) // other errors are the read's alone
		}
		return err
	}
	if st.writer == writer {
		if err := st.contentErr(); err != nil {
			return err // it failed meanwhile
		}
	}
	d.mu.Unlock()
	f(mem, lo)
	d.mu.Lock()
	if whole && st.writer == writer && st.onlyOnDevice() && !st.busy && !st.closed {
		st.dropHost()
		st.host, st.hostValid = mem, true
	} else {
		d.pool.put(mem)
	}
	return nil
}

// fetchUnlocked reads bytes and waits for them, with d.mu released.
func (d *Device) fetchUnlocked(ctx context.Context, st *storage, lo, hi int) ([]byte, error) {
	d.mu.Unlock()
	defer d.mu.Lock()
	r, err := d.backend.fetch(st, lo, hi)
	if err != nil {
		return nil, err
	}
	mem, err := r.wait(ctx)
	if err != nil {
		r.drop()
	}
	return mem, err
}

// leave ends a use of the device that Close waits for. d.mu is held.
func (d *Device) leave() {
	if d.users--; d.users == 0 {
		d.cond.Broadcast()
	}
}

// waitUnlocked waits for m with d.mu released.
func (d *Device) waitUnlocked(ctx context.Context, m mark) error {
	d.mu.Unlock()
	defer d.mu.Lock()
	return m.wait(ctx)
}

// modifyHost calls f with the storage's host memory, to be written. whole tells
// that f writes all of it; else the content is made current first. From then on
// the host's copy is the newest.
func (st *storage) modifyHost(ctx context.Context, whole bool, f func(mem []byte)) error {
	if st.readOnly {
		return fmt.Errorf("wrapped memory is read-only: %w", ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d := st.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if err := st.usable(); err != nil {
			return err
		}
		if err := st.hostAccess("write"); err != nil {
			return err
		}
		if !whole {
			if err := st.contentErr(); err != nil {
				return err
			}
		}
		m, busy := st.hostConflict(whole)
		if !busy {
			break
		}
		if err := d.waitUnlocked(ctx, m); err != nil {
			return err
		}
	}
	st.acquire()
	defer st.releaseBusy()
	d.users++
	defer d.leave()
	err := d.modifyBusy(st, whole, f)
	if err == nil {
		st.hostValid, st.deviceValid, st.fellBack = true, st.mapped, false
		if whole {
			st.err, st.source = nil, nil
		}
	}
	return err
}

// modifyBusy does the copying of modifyHost, with d.mu released.
func (d *Device) modifyBusy(st *storage, whole bool, f func(mem []byte)) error {
	d.mu.Unlock()
	defer d.mu.Lock()
	if !whole {
		if _, _, err := d.backend.load(st, 0, st.bytes); err != nil {
			return err
		}
	}
	f(st.hostMemory())
	return nil
}

// ownMemory reports whether the device has a copy of its own.
func (st *storage) ownMemory() bool { return st.dev.ownMemory && !st.mapped }

// hostConflict returns work that must be done before host memory is written.
// Where the device has memory of its own, only content that must come down
// matters: ops in flight use the device's copy. d.mu is held.
func (st *storage) hostConflict(whole bool) (mark, bool) {
	if st.ownMemory() && (whole || st.source == nil) {
		return mark{}, false
	}
	if st.writer.pending() {
		return st.writer, true
	}
	if !st.ownMemory() {
		for _, m := range st.readers {
			if m.pending() {
				return m, true
			}
		}
	}
	return mark{}, false
}
