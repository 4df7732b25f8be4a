package kompute

import (
	"context"
	"errors"
	"sync"
	"time"
	"unsafe"
)

// vulkanBackend keeps storage in device memory, through the native library, and
// in host memory where the host needs it.
type vulkanBackend struct {
	d      *Device
	native native
	// transfers is the stream of downloads: they wait for what they need, not
	// for what was enqueued behind it.
	transfers *Stream

	mu    sync.Mutex
	ops   map[string]int32 // native.findOp's answers
	dummy unsafe.Pointer   // stands for operands without elements
}

// newVulkanDevice makes a Device of an open native one.
func newVulkanDevice(info DeviceInfo, n native, o options) (*Device, error) {
	if err := o.checkDisabled(n.findOp); err != nil {
		n.close()
		return nil, err
	}
	d := newDevice(info, o)
	d.ownMemory = true
	d.clock = clock{time.Now(), n.now()}
	b := &vulkanBackend{d: d, native: n, ops: make(map[string]int32)}
	d.backend = b
	b.transfers = &Stream{dev: d, internal: true}
	q, err := b.newQueue(b.transfers)
	if err != nil {
		n.close()
		return nil, err
	}
	b.transfers.queue = q
	if err := b.transfers.measure(); err != nil {
		n.close()
		return nil, err
	}
	return d, nil
}

func (b *vulkanBackend) newQueue(s *Stream) (queue, error) {
	handle, err := b.native.createStream()
	if err != nil {
		return nil, err
	}
	return &vulkanQueue{s: s, b: b, handle: handle, seen: make(map[*vulkanQueue]uint64)}, nil
}

// load implements backend. What is asked for comes down alone if it is a small
// part; else all comes down, and the host's copy is current from then on.
func (b *vulkanBackend) load(st *storage, lo, hi int) ([]byte, int, error) {
	b.d.mu.Lock()
	current := st.hostValid || !st.deviceValid
	b.d.transfers.looked(current)
	writer, source := st.writer, st.source
	b.d.mu.Unlock()
	if current || lo == hi {
		return st.hostMemory(), 0, nil
	}
	part := hi-lo <= st.bytes/2
	var mem []byte
	if part {
		lo &^= 15
		mem = alignedBytes(hi - lo)
	} else {
		lo, mem = 0, st.hostMemory()
	}
	if err := b.download(st, writer, lo, mem); err != nil {
		return nil, 0, err
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	st.hostValid = st.hostValid || !part
	b.d.downloaded(source, len(mem))
	return mem, lo, nil
}

// download fills mem from the storage's bytes at offset, after the writer.
func (b *vulkanBackend) download(st *storage, writer mark, offset int, mem []byte) error {
	b.transfers.mu.Lock()
	defer b.transfers.mu.Unlock()
	defer b.transfers.onHost("transfer", "download", "bytes", len(mem))()
	q := b.transfers.queue.(*vulkanQueue)
	if writer.stream != nil {
		if err := q.after(writer); err != nil {
			return err
		}
	}
	defer q.takeSpans()
	return q.submitting(b.native.download(q.handle, st.res.buf, offset, mem))
}

// buffer makes device memory. If there is none left, it waits for what the
// stream still uses, and has the garbage collector look for forgotten tensors.
func (b *vulkanBackend) buffer(s *Stream, bytes int) (unsafe.Pointer, error) {
	buf, err := b.native.createBuffer(bytes)
	if !errors.Is(err, ErrOutOfMemory) {
		return buf, err
	}
	b.d.mu.Lock()
	m := mark{s, s.appended}
	b.d.mu.Unlock()
	if err := s.queue.submit(m.ticket); err != nil {
		return nil, err
	}
	_ = s.queue.wait(context.Background(), m.ticket)
	collect()
	return b.native.createBuffer(bytes)
}

// placeholder returns the handle that stands for a storage without bytes.
func (b *vulkanBackend) placeholder() (unsafe.Pointer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dummy == nil {
		buf, err := b.native.createBuffer(64)
		if err != nil {
			return nil, err
		}
		b.dummy = buf
	}
	return b.dummy, nil
}

// findOp returns the native index of an op, negative if there is none.
func (b *vulkanBackend) findOp(name string) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	index, known := b.ops[name]
	if !known {
		index = b.native.findOp(name)
		b.ops[name] = index
	}
	return index
}

func (b *vulkanBackend) freeBuffer(buf unsafe.Pointer) { b.native.destroyBuffer(buf) }

func (b *vulkanBackend) stats(out *DeviceStats) { b.native.deviceStats(out) }

func (b *vulkanBackend) close() {
	_ = b.transfers.Close()
	if b.dummy != nil {
		b.native.destroyBuffer(b.dummy)
	}
	b.native.close()
}
