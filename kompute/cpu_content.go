package kompute

import (
	"context"
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
)

// cpuContent is the CPU backend's state of a storage: its memory, and which
// pending work writes or reads it. All fields are guarded by dev.mu. While busy
// is set, a goroutine copies with dev.mu released, and no work that uses the
// storage is appended.
type cpuContent struct {
	host     []byte // nil until it is needed
	own      bool   // host is to be recycled
	uploaded bool   // wrapped memory has been copied, if there was memory for it
	busy     bool
	writer   mark
	readers  []mark // since the last write, at most one a stream
}

// cpuDependency is work that other work must wait for.
type cpuDependency struct {
	mark
	makes bool // it makes content that the other reads, which cannot run if it fails
}

// wrote records m as the last writer. dev.mu is held.
func (c *cpuContent) wrote(m mark) {
	c.writer = m
	c.readers = c.readers[:0]
}

// read records m as a reader. Before the list grows, readers that are done are
// removed, including those of closed streams. dev.mu is held.
func (c *cpuContent) read(m mark) {
	for i := range c.readers {
		if c.readers[i].stream == m.stream {
			c.readers[i] = m
			return
		}
	}
	if len(c.readers) == cap(c.readers) {
		kept := c.readers[:0]
		for _, r := range c.readers {
			if r.pending() {
				kept = append(kept, r)
			}
		}
		clear(c.readers[len(kept):])
		c.readers = kept
	}
	c.readers = append(c.readers, m)
}

// used records that the work at m uses the content. dev.mu is held.
func (c *cpuContent) used(access Access, m mark) {
	if access&AccessWrite != 0 {
		c.wrote(m)
	} else {
		c.read(m)
	}
}

// conflicts appends to deps the work of streams other than s (which may be nil)
// that must be done before the content is accessed. dev.mu is held.
func (c *cpuContent) conflicts(s *Stream, access Access, deps []cpuDependency) []cpuDependency {
	if c.writer.stream != s && c.writer.pending() {
		deps = append(deps, cpuDependency{c.writer, access&AccessRead != 0})
	}
	if access&AccessWrite == 0 {
		return deps
	}
	for _, m := range c.readers {
		if m.stream != s && m.pending() {
			deps = append(deps, cpuDependency{mark: m})
		}
	}
	return deps
}

// err returns why the work did not make what it should have made. The work is done.
func (dep cpuDependency) err() error {
	if !dep.makes {
		return nil
	}
	d := dep.stream.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	return dep.stream.err
}

// memory allocates the memory if needed. The caller has the storage pinned and
// does not hold dev.mu.
func (st *storage) memory() []byte {
	d := st.dev
	d.mu.Lock()
	mem := st.cpu.host
	d.mu.Unlock()
	if mem != nil || st.bytes == 0 {
		return mem
	}
	fresh := recycledBytes(st.bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if st.cpu.host == nil {
		st.cpu.host, st.cpu.own = fresh, true
	}
	return st.cpu.host
}

// hostArray returns the view as an array over the host's memory. The storage is
// pinned, and dev.mu is not held.
func (v *View) hostArray() array.Array {
	if v == nil {
		return array.Array{}
	}
	return array.Array{DType: v.dtype, Layout: v.layout, Data: v.st.memory()}
}

// read implements backend.
func (cpuBackend) read(ctx context.Context, st *storage, lo, _ int, f func(mem []byte, base int)) error {
	var fault error
	err := st.onHost(ctx, AccessRead, func(mem []byte) { fault = touching(func() { f(mem, 0) }) })
	return errors.Join(err, fault)
}

// write implements backend. Work that is enqueued meanwhile comes after it, so its errors must stay.
func (cpuBackend) write(ctx context.Context, v *View, data []byte) error {
	return v.st.onHost(ctx, AccessReadWrite, func(mem []byte) {
		scatterBytes(mem, data, v.dtype.Size(), v.layout)
		v.writtenByHost(v.st.origin())
	})
}

// onHost calls f with the memory once no pending work conflicts with the
// access, and keeps other work from starting meanwhile.
func (st *storage) onHost(ctx context.Context, access Access, f func(mem []byte)) error {
	d := st.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		deps := st.cpu.conflicts(nil, access, nil)
		if len(deps) == 0 && !st.cpu.busy {
			break
		}
		if len(deps) == 0 {
			d.cond.Wait()
			continue
		}
		m := deps[0]
		m.stream.queue.(*cpuQueue).start(m.value)
		d.mu.Unlock()
		err := m.wait(ctx)
		d.mu.Lock()
		if err != nil {
			return err
		}
	}
	if access == AccessRead {
		if err := st.contentErr(); err != nil {
			return err // it failed meanwhile
		}
	}
	st.cpu.busy = true
	d.mu.Unlock()
	defer func() { // f may panic
		d.mu.Lock()
		st.cpu.busy = false
		d.cond.Broadcast()
	}()
	f(st.memory())
	return nil
}

// cpuRead is a read that a stream's worker performs.
type cpuRead struct {
	m    mark
	from *storage
	lo   int
	mem  []byte

	// Guarded by the device's mu.
	full bool
	err  error // why there is no copy
}

// read implements queue: it pushes an item that copies.
func (q *cpuQueue) read(st *storage, lo, hi int) (readback, error) {
	if lo >= hi {
		return emptyRead{}, nil // lo may lie outside the storage
	}
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for st.cpu.busy {
		d.cond.Wait()
	}
	if err := st.contentErr(); err != nil { // it may have failed since the caller looked
		return nil, err
	}
	st.pins++
	r := &cpuRead{from: st, lo: lo, mem: alignedBytes(hi - lo)}
	q.push(cpuItem{read: r, deps: st.cpu.conflicts(q.s, AccessRead, nil)})
	r.m = mark{q.s, q.s.appended}
	st.cpu.read(r.m)
	return r, nil
}

// run copies, unless the content was not made. dev.mu is not held.
func (r *cpuRead) run(unmade error) {
	err := unmade
	if err == nil {
		err = touching(func() { copy(r.mem, r.from.memory()[r.lo:]) })
	}
	d := r.from.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	r.err, r.full = err, err == nil
}

func (r *cpuRead) wait(ctx context.Context) error {
	if err := r.m.wait(ctx); err != nil {
		return err
	}
	d := r.m.stream.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.isFreed():
		return fmt.Errorf("the read is %w", ErrClosed)
	case !r.full && r.err == nil:
		return r.m.stream.err // which kept it from running
	}
	return r.err
}

func (r *cpuRead) take(f func(mem []byte, base int)) error {
	f(r.mem, r.lo)
	return nil
}

func (r *cpuRead) done() bool { return r.m.stream.queue.poll(r.m.value) }

func (r *cpuRead) drop() {}
