package kompute

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// vulkanBackend is a device of the native library, which has its tensor cache
// and runs its streams.
type vulkanBackend struct {
	d      *Device
	native native
	// transfers is the stream of what the host reads and writes by itself: reads
	// wait for what they need, not for what was enqueued behind it.
	transfers *Stream

	mu  sync.Mutex
	ops map[string]int32 // native.findOp's answers
}

// newVulkanDevice makes a Device of an open native one.
func newVulkanDevice(info DeviceInfo, n native, o options) (*Device, error) {
	if err := o.checkDisabled(n.findOp); err != nil {
		n.close()
		return nil, err
	}
	d := newDevice(info, o)
	d.clock = clock{time.Now(), n.now()}
	b := &vulkanBackend{d: d, native: n, ops: make(map[string]int32)}
	d.backend = b
	b.transfers = &Stream{dev: d, internal: true}
	q, err := b.newQueue(b.transfers)
	if err == nil {
		b.transfers.queue = q
		err = b.transfers.measure()
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return d, nil
}

func (b *vulkanBackend) newQueue(s *Stream) (queue, error) {
	handle, err := b.native.createStream(s.internal)
	if err != nil {
		return nil, err
	}
	return &vulkanQueue{s: s, b: b, handle: handle}, nil
}

func (b *vulkanBackend) give(st *storage) (err error) {
	st.res.native, err = b.native.createTensor(st.bytes)
	return err
}

// wrap pins memory of Go's: the native library reads it until the storage goes.
func (b *vulkanBackend) wrap(st *storage, data []byte) (err error) {
	if len(data) > 0 {
		st.res.pinned = new(runtime.Pinner)
		st.res.pinned.Pin(unsafe.SliceData(data))
	}
	st.res.native, err = b.native.wrapTensor(data)
	return err
}

func (b *vulkanBackend) giveMapped(st *storage) (err error) {
	st.res.native, st.mapped, err = b.native.createMapped(st.bytes)
	return err
}

func (b *vulkanBackend) fill(st *storage, data []byte) error {
	if st.bytes == 0 {
		return nil
	}
	whole := nativeArray{tensor: uintptr(st.res.native), dtype: uint32(array.Uint8), rank: 1}
	whole.shape[0], whole.strides[0] = int64(st.bytes), 1
	return b.d.retryOutOfMemory(func() error {
		return b.native.writeTensor(&whole, b.transfersHandle(), data)
	})
}

func (b *vulkanBackend) transfersHandle() unsafe.Pointer {
	return b.transfers.queue.(*vulkanQueue).handle
}

// read implements backend. What a stream failed to make is that stream's error;
// anything else is the read's alone.
func (b *vulkanBackend) read(ctx context.Context, st *storage, lo, hi int, f func(mem []byte, base int)) error {
	if lo >= hi {
		f(nil, lo)
		return nil
	}
	r, err := b.startRead(st, b.transfersHandle(), true, lo, hi)
	if err != nil {
		return b.readFailed(st, err)
	}
	defer r.drop()
	if err := r.wait(ctx); err != nil {
		return b.readFailed(st, err)
	}
	return r.take(f)
}

// readFailed returns the error of a read, and poisons the stream that was to make
// the content if that is why.
func (b *vulkanBackend) readFailed(st *storage, err error) error {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if st.source != nil && (ofContent(err) || errors.Is(err, ErrDeviceLost)) {
		st.source.fail(err)
		if st.source.err != nil { // unless it was closed in order
			return st.source.err
		}
	}
	return err
}

// write implements backend. What is in many pieces, and on the device alone,
// comes down first.
func (b *vulkanBackend) write(ctx context.Context, v *View, data []byte) error {
	var view nativeArray
	view.set(Out(v))
	err := b.writeView(ctx, v.st, &view, b.transfersHandle(), data)
	if err != nil || v.st.mapped == nil {
		return err
	}
	return b.transfers.Synchronize(ctx) // mapped memory has it from then on
}

func (b *vulkanBackend) writeView(ctx context.Context, st *storage, view *nativeArray, stream unsafe.Pointer, data []byte) error {
	for {
		err := b.d.retryOutOfMemory(func() error { return b.native.writeTensor(view, stream, data) })
		if err != errStale {
			return err
		}
		if err := b.read(ctx, st, 0, st.bytes, func([]byte, int) {}); err != nil {
			return err
		}
	}
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

func (b *vulkanBackend) free(native unsafe.Pointer) { b.native.destroyTensor(native) }

func (b *vulkanBackend) stats(out *DeviceStats) { b.native.deviceStats(out) }

func (b *vulkanBackend) close() {
	_ = b.transfers.Close()
	b.native.close()
}

// The slices in which a wait that can be cancelled asks whether it is.
const (
	firstSlice = time.Millisecond
	lastSlice  = 5 * time.Millisecond
)

// waitSliced calls wait with timeouts in nanoseconds until it reports true, it
// fails, or ctx is done.
func waitSliced(ctx context.Context, wait func(timeout uint64) (bool, error)) error {
	slice := firstSlice
	for {
		timeout := uint64(slice)
		if ctx.Done() == nil {
			timeout = ^uint64(0)
		}
		reached, err := wait(timeout)
		if err != nil || reached {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		slice = min(2*slice, lastSlice)
	}
}
