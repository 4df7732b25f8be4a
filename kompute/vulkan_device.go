package kompute

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// vulkanBackend is a device of the native library, which holds the tensor cache
// and runs the streams.
type vulkanBackend struct {
	d      *Device
	native native
	// transfers is the stream of the host's own reads and writes, so that a
	// read waits only for the work that it needs.
	transfers *Stream

	refused atomic.Uint32 // how many refusals of kernel variants logRefusals has seen
	logged  sync.Map      // those variants
}

// newVulkanDevice wraps an open native device.
func newVulkanDevice(info DeviceInfo, n native, o options) (*Device, error) {
	d := newDevice(info, o)
	d.clock = clock{time.Now(), n.now()}
	b := &vulkanBackend{d: d, native: n}
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
	if o.overlap && !d.Stats().Overlap {
		d.Logger().Warn("dispatches cannot overlap on this device: barriers stay", slog.String("device", info.Name))
	}
	if o.batchVariant && !d.Stats().BatchVariant {
		d.Logger().Warn("products without batch invariance do not work on this device: rows keep their bits", slog.String("device", info.Name))
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

// handle returns the native tensor of storage that is in use. An op makes that of a result;
// for any other use of storage without one it is made here.
func (b *vulkanBackend) handle(st *storage) (unsafe.Pointer, error) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	var err error
	if st.res.native == nil {
		st.res.native, err = b.native.createTensor(st.bytes)
	}
	return st.res.native, err
}

// wrap pins Go memory: the native library reads it until the storage is freed.
func (b *vulkanBackend) wrap(st *storage, data []byte) (err error) {
	if len(data) > 0 && st.res.pinned == nil { // else this is a second try
		st.res.pinned = new(runtime.Pinner)
		st.res.pinned.Pin(unsafe.SliceData(data))
	}
	st.res.native, err = b.native.wrapTensor(data)
	return err
}

func (b *vulkanBackend) giveMapped(st *storage) (err error) {
	st.shared = new(sharedMemory)
	st.res.native, st.shared.mapped, err = b.native.createMapped(st.bytes)
	return err
}

func (b *vulkanBackend) fill(st *storage, data []byte) error {
	if st.bytes == 0 {
		return nil
	}
	whole := nativeArray{dtype: uint32(array.Uint8), rank: 1}
	whole.shape[0], whole.strides[0] = int64(st.bytes), 1
	return b.d.retryOutOfMemory(func() error {
		tensor, err := b.handle(st)
		if err != nil {
			return err
		}
		whole.tensor = uintptr(tensor)
		return b.native.writeTensor(&whole, b.transfersHandle(), data)
	})
}

func (b *vulkanBackend) transfersHandle() unsafe.Pointer {
	return b.transfers.queue.(*vulkanQueue).handle
}

// read implements backend. If a stream failed to make the content, the error is
// that stream's; other errors affect only this read.
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

// readFailed returns the error of a read. If the content could not be made, it
// poisons the stream that should have made it.
func (b *vulkanBackend) readFailed(st *storage, err error) error {
	b.d.noteLost(err)
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if st.source != nil && (lost(err) == contentLost || errors.Is(err, ErrDeviceLost)) {
		st.source.fail(err)
		if st.source.err != nil { // unless it was closed without an error
			return st.source.err
		}
	}
	return err
}

// write implements backend. A scattered view whose content is only on the
// device is downloaded first.
func (b *vulkanBackend) write(ctx context.Context, v *View, data []byte) error {
	origin := v.st.origin()
	err := b.writeView(ctx, v, b.transfersHandle(), data)
	if err == nil && v.st.mapped() != nil {
		err = b.transfers.Synchronize(ctx) // so that mapped memory holds the data on return
	}
	if err == nil {
		v.writtenByHost(origin)
	}
	return err
}

func (b *vulkanBackend) writeView(ctx context.Context, v *View, stream unsafe.Pointer, data []byte) error {
	var view nativeArray
	for {
		err := b.d.retryOutOfMemory(func() error {
			if _, err := b.handle(v.st); err != nil {
				return err
			}
			b.d.mu.Lock()
			view.set(&Arg{v, AccessWrite})
			b.d.mu.Unlock()
			return b.native.writeTensor(&view, stream, data)
		})
		if err != errStale {
			return err
		}
		if err := b.read(ctx, v.st, 0, v.st.bytes, func([]byte, int) {}); err != nil {
			return err
		}
	}
}

func (b *vulkanBackend) free(native []uintptr) { b.native.destroyTensors(native) }

func (b *vulkanBackend) stats(out *DeviceStats) {
	b.native.deviceStats(out)
	out.Hang = b.native.hang()
	out.addKernels(b.native.kernels())
}

func (b *vulkanBackend) close() {
	_ = b.transfers.Close()
	b.native.close()
}

// The intervals at which a cancellable wait checks its context.
const (
	firstSlice = time.Millisecond
	lastSlice  = 5 * time.Millisecond
)

// waitSliced calls wait with timeouts in nanoseconds until it returns true or
// an error, or ctx is done.
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
