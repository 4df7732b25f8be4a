package kompute

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DeviceInfo describes a device.
type DeviceInfo struct {
	Backend         string // "vulkan" or "cpu"
	Index           int    // among the devices of its backend, best first
	Name            string
	Driver          string
	UUID            string // 32 hex digits; empty for the CPU backend
	Type            string // "discrete", "integrated", "virtual", "cpu" or "other"
	APIVersion      string // of Vulkan, as "1.3.0"; empty for the CPU backend
	SubgroupSize    int    // lanes of a subgroup, unless WithSubgroupSize sets them
	MinSubgroupSize int    // the smallest that WithSubgroupSize takes; 0: it takes none
	MaxSubgroupSize int    // the largest; 0 likewise
	MemoryTotal     int64  // bytes
	MemoryAvailable int64  // bytes available now, as far as the driver reports, and at most the budget of an open device
	MaxTensorBytes  int64  // the largest single tensor, of an open device as its masks allow; 0: no limit but memory
	Usable          bool
	UnusableReason  string // why it cannot be used; empty if Usable
}

// Device is an open device, on which tensors live and streams run. Its methods
// may be called from any goroutine. Methods of a nil or zero Device that can
// fail return ErrInvalid.
type Device struct {
	info        DeviceInfo
	noGPUReason string
	opts        options
	reopen      func() (*Device, error) // opens it once more
	backend     backend
	budget      int64 // the most bytes of live storage; 0: no limit
	clock       clock // of spans

	// mu guards the state of the device's storage, streams, events and scopes.
	// It is never held while waiting for work.
	mu       sync.Mutex
	cond     *sync.Cond    // signalled when something is no longer busy or in use
	closed   atomic.Bool   // set with mu held
	closing  chan struct{} // created by the first Close, and closed when all is freed
	closeErr error         // of the closing
	users    int           // calls that use the device
	// changes counts events after which a region must check its tensors again:
	// a tensor was closed, failed, or was written by another stream; or a
	// stream was poisoned.
	changes    uint64
	failures   uint64 // counts storages whose content was not made
	streams    map[*Stream]struct{}
	numbered   int                      // streams so far
	past       DeviceStats              // totals of closed streams
	resources  *resource                // live ones
	reads      map[*vulkanRead]struct{} // with a native handle
	algorithms map[*algorithmResource]struct{}
	freed      []uintptr // native handles to destroy
	freesLater bool      // freeNative will destroy several at once
	live       int
	liveBytes  int64
	peakBytes  int64
	transfers  transferCounts
	logged     map[[2]string]bool // fallbacks, by op and reason
	lost       bool               // and logged
}

// transferCounts counts downloads. The native library counts uploads.
type transferCounts struct {
	downloads, downloadBytes uint64
}

func newDevice(info DeviceInfo, opts options) *Device {
	if free := info.MemoryAvailable; opts.budget > 0 && (free <= 0 || free > opts.budget) {
		info.MemoryAvailable = opts.budget
	}
	d := &Device{info: info, opts: opts, budget: opts.budget, streams: make(map[*Stream]struct{}), reads: make(map[*vulkanRead]struct{}), algorithms: make(map[*algorithmResource]struct{}), changes: 1, logged: make(map[[2]string]bool)}
	d.cond = sync.NewCond(&d.mu)
	return d
}

// Backend returns "vulkan" or "cpu".
func (d *Device) Backend() string { return d.made().info.Backend }

// Info describes the device as it was when it was opened.
func (d *Device) Info() DeviceInfo { return d.made().info }

// NoGPUReason returns the reason why Open("auto") chose the CPU backend. It is
// empty for a device that was opened in any other way.
func (d *Device) NoGPUReason() string { return d.made().noGPUReason }

// NewStream makes a stream on the device. The error is ErrClosed or the
// driver's.
func (d *Device) NewStream(opts ...StreamOption) (*Stream, error) {
	if d = d.made(); d == noDevice {
		return nil, errNilDevice
	}
	s := &Stream{dev: d}
	for _, set := range opts {
		if set != nil {
			set(s)
		}
	}
	err := d.using(func() (err error) {
		if s.queue, err = d.backend.newQueue(s); err != nil {
			return err
		}
		if err := s.measure(); err != nil {
			s.queue.close()
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.numbered++
		s.number = d.numbered
		d.streams[s] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *Device) anyStream() *Stream {
	for s := range d.streams {
		return s
	}
	return nil
}

// Logger returns the logger of [WithLogger]; without one, a logger that discards
// everything. Packages that run work on the device log to it what is slower than it
// could be.
func (d *Device) Logger() *slog.Logger {
	if d == nil || d.opts.logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.opts.logger
}

// logFallback logs once for each op and reason, with the operands of the first call.
func (d *Device) logFallback(op *Op, reason string) {
	if d.opts.logger == nil {
		return
	}
	key := [2]string{op.Name, reason}
	d.mu.Lock()
	seen := d.logged[key]
	d.logged[key] = true
	d.mu.Unlock()
	if !seen {
		d.opts.logger.Warn("op runs on the CPU", slog.String("op", op.Name), slog.String("reason", reason),
			slog.String("operands", op.operands()), slog.String("device", d.info.Name))
	}
}

// noteLost logs, once, that the device is lost, if that is the error.
func (d *Device) noteLost(err error) {
	if !errors.Is(err, ErrDeviceLost) {
		return
	}
	d.mu.Lock()
	known := d.lost
	d.lost = true
	d.mu.Unlock()
	if !known && d.opts.logger != nil {
		d.opts.logger.Error("the device is lost", slog.String("device", d.info.Name), slog.String("error", err.Error()))
	}
}

// collect makes the garbage collector release tensors that were never closed. Cleanups run on their
// own goroutines, which a busy machine may keep waiting, so one more is waited for.
func collect() {
	done := make(chan struct{})
	forget(done)
	runtime.GC()
	select {
	case <-done:
	case <-time.After(cleanupLimit):
	}
	time.Sleep(collectStep) // several goroutines may run cleanups
}

// forget closes done when the cleanups of what can be collected now run.
//
//go:noinline
func forget(done chan struct{}) {
	runtime.AddCleanup(&struct{ own chan struct{} }{done}, func(done chan struct{}) { close(done) }, done)
}

// The time limits for cleanups of collected tensors and for work that still uses
// them.
const (
	collectStep  = 2 * time.Millisecond
	collectSteps = 5
	cleanupLimit = time.Second
	finishLimit  = time.Second
)

// finishWork submits what was enqueued on the device and waits for it, with a
// time limit, since an event may hold it back.
func (d *Device) finishWork() {
	d.mu.Lock()
	streams := slices.Collect(maps.Keys(d.streams))
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	for _, s := range streams {
		if m, err := s.flush(ctx); err == nil {
			_ = s.queue.wait(ctx, m.value)
		}
	}
}

// collectUntil collects, and calls enough as cleanups run, until it returns
// true or the time is up.
func (d *Device) collectUntil(enough func() bool) {
	collect()
	for range collectSteps {
		if enough() {
			return
		}
		time.Sleep(collectStep)
	}
}
