package kompute

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// fakeNative is a device made of goroutines: its streams run concurrently and
// late, so that under the race detector a missing dependency shows, and it can
// be made to fail where a real device does not on demand.
type fakeNative struct {
	mu          sync.Mutex
	cond        *sync.Cond
	t           testing.TB
	closed      bool
	gate        chan struct{}     // work waits until it is closed
	unsupported map[string]string // op -> reason
	failing     map[string]error  // op -> error; "flush", "upload", "wait", … too
	capacity    int               // bytes of buffers; 0: any
	held        int               // bytes of buffers
	buffers     int
	streams     int
	regions     int
	gates       int // not opened
	reads       int
	waits       int
	submits     uint64
	depends     int
}

type fakeBuffer struct {
	data      []byte
	destroyed bool // by the caller; work that was appended may still use it
}

type fakeStream struct {
	pending   []func()
	batches   []func()
	running   bool
	submitted uint64
	reached   uint64
	destroyed bool
	capturing bool
	captured  []func()
}

type fakeGate struct{ opened chan struct{} }

type fakeRead struct {
	data      []byte
	done      atomic.Bool
	destroyed bool
}

type fakeRegion struct {
	work      []func()
	destroyed bool
}

func newFake(t testing.TB) *fakeNative {
	f := &fakeNative{t: t, unsupported: map[string]string{}, failing: map[string]error{}}
	f.cond = sync.NewCond(&f.mu)
	return f
}

// openFake returns a Device on a fake; it is closed at the end of the test.
func openFake(t testing.TB, opts ...Option) (*Device, *fakeNative) {
	f := newFake(t)
	o := makeOptions(opts)
	f.capacity = int(o.budget)
	info := DeviceInfo{Backend: "vulkan", Name: "fake", Type: "other", MaxTensorBytes: 1 << 30, Usable: true}
	d, err := newVulkanDevice(info, f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeTest(t, d)
		if !f.closed {
			t.Error("the native device was not closed")
		}
	})
	return d, f
}

func (f *fakeNative) fail(what string) error {
	if err, found := f.failing[what]; found {
		return err
	}
	return nil
}

func (f *fakeNative) createBuffer(bytes int) (unsafe.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.capacity > 0 && f.held+bytes > f.capacity {
		return nil, nativeError(codeOutOfMemory, uint64(bytes), uint64(f.capacity-f.held), "")
	}
	f.held += bytes
	f.buffers++
	b := &fakeBuffer{data: alignedBytes(bytes)}
	for i := range b.data {
		b.data[i] = 0xcd // what is not initialised must not look like zeros
	}
	return unsafe.Pointer(b), nil
}

func (f *fakeNative) destroyBuffer(buffer unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := (*fakeBuffer)(buffer)
	if b.destroyed {
		f.t.Error("a buffer was destroyed twice")
	}
	b.destroyed = true
	f.held -= len(b.data)
	f.buffers--
}

func (f *fakeNative) createStream() (unsafe.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams++
	return unsafe.Pointer(&fakeStream{}), nil
}

func (f *fakeNative) destroyStream(stream unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stream(stream)
	for s.reached < s.submitted {
		f.cond.Wait()
	}
	s.destroyed = true
	f.streams--
}

// stream checks a handle. f.mu is held.
func (f *fakeNative) stream(p unsafe.Pointer) *fakeStream {
	s := (*fakeStream)(p)
	if s.destroyed {
		f.t.Error("a destroyed stream is used")
	}
	return s
}

func (f *fakeNative) buffer(p unsafe.Pointer) *fakeBuffer {
	b := (*fakeBuffer)(p)
	if b.destroyed {
		f.t.Error("a destroyed buffer is used")
	}
	return b
}

var fakeOps = []string{"copy", "add", "neg", "fail"}

func (f *fakeNative) findOp(name string) int32 { return int32(slices.Index(fakeOps, name)) }

func (f *fakeNative) op(stream unsafe.Pointer, op int32, arrays []nativeArray, params []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fakeOps[op]
	if why, found := f.unsupported[name]; found {
		return nativeError(codeUnsupported, 0, 0, why)
	}
	if err := f.fail(name); err != nil {
		return err
	}
	args := make([]array.Array, len(arrays))
	for i, a := range arrays {
		if a.buffer == nil {
			continue
		}
		l := array.Layout{Offset: int(a.offset)}
		for k := range a.rank {
			l.Shape = append(l.Shape, int(a.shape[k]))
			l.Strides = append(l.Strides, int(a.strides[k]))
		}
		args[i] = array.Array{DType: DType(a.dtype), Layout: l, Data: f.buffer(a.buffer).data}
	}
	run := testOps[name]
	s := f.stream(stream)
	work := &s.pending
	if s.capturing {
		work = &s.captured
	}
	*work = append(*work, func() {
		if err := run(args); err != nil {
			f.t.Error(err)
		}
	})
	return nil
}

func (f *fakeNative) createMapped(bytes int) (unsafe.Pointer, []byte, error) {
	buffer, err := f.createBuffer(bytes)
	if err != nil {
		return nil, nil, err
	}
	memory := (*fakeBuffer)(buffer).data
	clear(memory)
	return buffer, memory, nil
}

func (f *fakeNative) beginCapture(stream unsafe.Pointer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("begin capture"); err != nil {
		return err
	}
	s := f.stream(stream)
	if s.capturing {
		f.t.Error("a capture inside a capture")
	}
	s.capturing, s.captured = true, nil
	return nil
}

func (f *fakeNative) endCapture(stream unsafe.Pointer) (unsafe.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stream(stream)
	r := &fakeRegion{work: s.captured}
	s.capturing, s.captured = false, nil
	if err := f.fail("end capture"); err != nil {
		return nil, err
	}
	f.regions++
	return unsafe.Pointer(r), nil
}

func (f *fakeNative) abortCapture(stream unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stream(stream)
	s.capturing, s.captured = false, nil
}

func (f *fakeNative) replay(stream, region unsafe.Pointer, times int) (uint64, error) {
	f.mu.Lock()
	s, r := f.stream(stream), (*fakeRegion)(region)
	if r.destroyed {
		f.t.Error("a destroyed region is replayed")
	}
	if err := f.fail("replay"); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	for range times {
		s.pending = append(s.pending, r.work...)
	}
	f.mu.Unlock()
	return f.flush(stream)
}

func (f *fakeNative) regionStats(region unsafe.Pointer) RegionStats {
	n := uint64(len((*fakeRegion)(region).work))
	return RegionStats{Ops: n, FusedOps: n, Dispatches: n}
}

func (f *fakeNative) describeRegion(region unsafe.Pointer) []byte {
	return fmt.Appendf(nil, `{"captured_ops": %d}`, len((*fakeRegion)(region).work))
}

func (f *fakeNative) destroyRegion(region unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := (*fakeRegion)(region)
	if r.destroyed {
		f.t.Error("a region was destroyed twice")
	}
	r.destroyed = true
	f.regions--
}

func (f *fakeNative) dispatch(_, _ unsafe.Pointer, _ []nativeArray, _ [3]uint32, _ []uint32) error {
	return nativeError(codeInvalid, 0, 0, "the fake runs no SPIR-V")
}

func (f *fakeNative) upload(stream, buffer unsafe.Pointer, offset int, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("upload"); err != nil {
		return err
	}
	s, b, staged := f.stream(stream), f.buffer(buffer), slices.Clone(data)
	s.pending = append(s.pending, func() { copy(b.data[offset:], staged) })
	return nil
}

func (f *fakeNative) download(stream, buffer unsafe.Pointer, offset int, data []byte) error {
	f.mu.Lock()
	if err := f.fail("download"); err != nil {
		f.mu.Unlock()
		return err
	}
	s, b := f.stream(stream), f.buffer(buffer)
	s.pending = append(s.pending, func() { copy(data, b.data[offset:]) })
	f.mu.Unlock()
	value, err := f.flush(stream)
	if err == nil {
		_, err = f.wait(stream, value, ^uint64(0))
	}
	return err
}

func (f *fakeNative) depend(stream, other unsafe.Pointer, value uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, o := f.stream(stream), f.stream(other)
	if value > o.submitted {
		return nativeError(codeInvalid, 0, 0, fmt.Sprintf("value %d was not submitted", value))
	}
	f.depends++
	s.pending = append(s.pending, func() {
		f.mu.Lock()
		for o.reached < value {
			f.cond.Wait()
		}
		f.mu.Unlock()
	})
	return nil
}

func (f *fakeNative) hold(stream unsafe.Pointer) (unsafe.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("hold"); err != nil {
		return nil, err
	}
	g := &fakeGate{opened: make(chan struct{})}
	s := f.stream(stream)
	s.pending = append(s.pending, func() { <-g.opened })
	f.gates++
	return unsafe.Pointer(g), nil
}

func (f *fakeNative) openGate(gate unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gates--
	close((*fakeGate)(gate).opened) // panics if it was opened before
}

func (f *fakeNative) read(stream, buffer unsafe.Pointer, offset, bytes int) (unsafe.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("download"); err != nil {
		return nil, err
	}
	s, b := f.stream(stream), f.buffer(buffer)
	r := &fakeRead{data: make([]byte, bytes)}
	s.pending = append(s.pending, func() {
		copy(r.data, b.data[offset:])
		r.done.Store(true)
	})
	f.reads++
	return unsafe.Pointer(r), nil
}

func (f *fakeNative) copyRead(read unsafe.Pointer, data []byte) {
	r := (*fakeRead)(read)
	if !r.done.Load() || len(data) != len(r.data) {
		f.t.Errorf("%d of %d bytes taken of a read that is done: %v", len(data), len(r.data), r.done.Load())
	}
	copy(data, r.data)
}

func (f *fakeNative) destroyRead(read unsafe.Pointer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := (*fakeRead)(read)
	if r.destroyed {
		f.t.Error("a read was destroyed twice")
	}
	r.destroyed = true
	f.reads--
}

func (f *fakeNative) flush(stream unsafe.Pointer) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail("flush"); err != nil {
		return 0, err
	}
	s := f.stream(stream)
	if len(s.pending) == 0 {
		return s.submitted, nil
	}
	work, gate := s.pending, f.gate
	s.pending = nil
	s.submitted++
	f.submits++
	s.batches = append(s.batches, func() {
		if gate != nil {
			<-gate
		}
		for _, w := range work {
			for range rand.IntN(3) {
				runtime.Gosched()
			}
			w()
		}
	})
	if !s.running {
		s.running = true
		go f.work(s)
	}
	return s.submitted, nil
}

// work is the device's side of a stream.
func (f *fakeNative) work(s *fakeStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(s.batches) > 0 {
		batch := s.batches[0]
		s.batches = s.batches[1:]
		f.mu.Unlock()
		batch()
		f.mu.Lock()
		s.reached++
		f.cond.Broadcast()
	}
	s.running = false
}

func (f *fakeNative) wait(stream unsafe.Pointer, value, timeout uint64) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stream(stream)
	f.waits++
	if timeout != ^uint64(0) && s.reached < value {
		f.mu.Unlock()
		runtime.Gosched()
		f.mu.Lock()
		if err := f.fail("wait"); err != nil {
			return false, err
		}
		return s.reached >= value, nil
	}
	for s.reached < value {
		if err := f.fail("wait"); err != nil {
			return false, err
		}
		f.cond.Wait()
	}
	return true, nil
}

func (f *fakeNative) createAlgorithm([]uint32, int, []uint32, int) (unsafe.Pointer, error) {
	return nil, nativeError(codeInvalid, 0, 0, "the fake runs no SPIR-V")
}

func (f *fakeNative) destroyAlgorithm(unsafe.Pointer) {}

func (f *fakeNative) deviceStats(*DeviceStats) {}

func (f *fakeNative) streamStats(_ unsafe.Pointer, out *StreamStats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Submits = f.submits
}

func (f *fakeNative) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.buffers != 0 || f.streams != 0 || f.regions != 0 || f.gates != 0 || f.reads != 0 || f.closed {
		f.t.Errorf("closed with %d buffers, %d streams, %d regions, %d gates, %d reads, closed before: %v", f.buffers, f.streams, f.regions, f.gates, f.reads, f.closed)
	}
	f.closed = true
}

// profile takes a microsecond for each op, and one between two.
func (f *fakeNative) profile(stream, region unsafe.Pointer, spans []span) (span, error) {
	if err := f.fail("profile"); err != nil {
		return span{}, err
	}
	value, err := f.replay(stream, region, 1)
	if err == nil {
		_, err = f.wait(stream, value, ^uint64(0))
	}
	for i := range spans {
		spans[i] = span{uint64(2*i+1) * 1000, uint64(2*i+2) * 1000}
	}
	return span{0, 2000 * uint64(len((*fakeRegion)(region).work))}, err
}

func (f *fakeNative) timeOps(unsafe.Pointer, timing) error { return f.fail("time ops") }

func (f *fakeNative) takeSpans(unsafe.Pointer, func(op, kernel string, at span)) {}

func (f *fakeNative) now() uint64 { return processClock() }

func (f *fakeNative) opTimes(unsafe.Pointer) map[string]OpTime { return map[string]OpTime{} }
