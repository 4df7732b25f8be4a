package kompute

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Stream runs operations in the order in which they are enqueued. Two streams
// may overlap.
//
// Enqueue returns at once: work is collected, and submitted when the window is
// full (see WithWindow), on Flush, Record or Synchronize, and when its results
// are read. What submits work waits while 32 submissions of the stream are under
// way (see Enqueue). Work on a tensor that another stream wrote, or still reads,
// starts after that; the order is kept on the device, and the caller does not wait.
// Goroutines may share a stream, but must order their ops themselves. A nil or
// zero Stream behaves as one that failed with ErrInvalid.
//
// Repeated work can be captured once and replayed: see Capture.
//
// The first op that fails poisons the stream. Ops enqueued before it may have
// run; none after it do. Err, Synchronize and every read of a tensor that the
// stream wrote return the error, and an op of another stream that uses such a
// tensor fails with it. The way on is a new stream: tensors that the poisoned one
// has only read are as good as before, and one that it wrote is good again once it is
// written as a whole, by Write or by an op of another stream. So a stream for each
// request keeps a failure to that request.
//
// A cancelled wait returns at once with the context's error; the work
// continues.
type Stream struct {
	dev    *Device
	queue  queue
	number int // counts the device's streams
	// internal streams are the device's own: an error there belongs to a single
	// read and does not poison the stream.
	internal bool

	// mu serializes appending. It is taken before dev.mu, and held across calls
	// of the native library that append.
	mu           sync.Mutex
	pendingOps   int    // in the window
	pendingBytes int64  // of their operands
	windowed     uint64 // submitted when the window began; dev.mu is held as well
	timesHost    bool   // the host's time to enqueue ops is measured

	// Guarded by dev.mu.
	err           error
	closing       chan struct{} // created by the first Close, and closed when all is freed
	closed        bool          // nothing is appended or submitted anymore
	counted       bool          // its counters are in Device.past
	appended      uint64        // CPU backend: the value that the work appended last reaches
	submitted     uint64        // all work up to this value was started
	done          uint64        // all work up to this value is known to be done
	scope         *Scope        // innermost open one
	spare         []*storage
	capture       *capture  // under way; changes with mu held as well
	regions       []*Region // open ones
	ops           uint64
	replays       uint64
	waits         uint64
	transfers     transferCounts
	fallbacks     map[string]map[string]int
	fallbackMoves map[string]FallbackMoves // by op
	rows          rowCalls
	hostTimes     map[string]time.Duration // by op

	ctx context.Context // cancels waits inside Enqueue; nil: nothing does
}

// StreamOption changes how NewStream makes a stream.
type StreamOption func(*Stream)

// WithContext makes ctx cancel waits during enqueueing: those for operands of ops that fall back to
// the CPU, and those for room when too much work is pending. The context's error then poisons the
// stream. It suits a stream that serves one request.
func WithContext(ctx context.Context) StreamOption {
	return func(s *Stream) { s.ctx = ctx }
}

// context returns the context that cancels waits during enqueueing.
func (s *Stream) context() context.Context {
	if s.ctx == nil {
		return context.Background()
	}
	return s.ctx
}

// Device returns the stream's device, nil if the stream is nil.
func (s *Stream) Device() *Device {
	if s = s.made(); s == noStream {
		return nil
	}
	return s.dev
}

// Enqueue appends op. It waits for the device only when the op falls back to
// the CPU, which needs its operands, when too many windows are pending, and
// seldom for zeroed memory that attention over long caches takes, which is kept
// for later ops. A failure poisons the stream.
//
// Too many windows are pending when 32 submissions of the stream are under way,
// unless the first of them is held back: by an event of another device or, on the
// CPU device, by any work of another stream.
//
// The error is ErrClosed for a closed operand, ErrDevice for one of another
// device, and a failed operand's own error; it is ErrInvalid for a layout that
// exceeds its storage, or a write to wrapped memory.
func (s *Stream) Enqueue(op Op) {
	s = s.made()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timesHost || s.dev.opts.trace != nil {
		defer s.enqueueing(op.Name).done(s, op.Name)
	}
	err := s.admit(&op)
	if err == nil {
		err = s.queue.append(op)
	}
	if err != nil {
		s.refuse(op, err)
		return
	}
	if s.capture != nil {
		return
	}
	s.pendingOps++
	s.pendingBytes += op.bytes
	if s.pendingOps >= s.dev.opts.windowOps || s.pendingBytes >= s.dev.opts.windowBytes {
		_, _ = s.flushLocked(s.context()) // a failure poisons the stream
	}
}

// newWindow starts a new window if the last one was submitted, whether because
// it was full or by a read, an event or a replay. dev.mu is held.
func (s *Stream) newWindow() {
	if s.windowed != s.submitted {
		s.windowed, s.pendingOps, s.pendingBytes = s.submitted, 0, 0
	}
}

var errStreamClosed = fmt.Errorf("the stream is %w", ErrClosed)

// state returns why nothing can be enqueued, or nil. dev.mu is held.
func (s *Stream) state() error {
	if s.err != nil {
		return s.err
	}
	if s.closed || s.closing != nil {
		return errStreamClosed
	}
	if s.capture != nil {
		return s.capture.failed()
	}
	return nil
}

// refuse poisons the stream and op's results, or fails the current capture. The tensors of an
// algorithm that was not dispatched stay as they are: some of them may be the caller's input.
func (s *Stream) refuse(op Op, err error) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.capture != nil {
		s.capture.refuse(op, err) // the op would not have run now
		return
	}
	s.fail(err)
	if op.algorithm != nil {
		return
	}
	for _, a := range op.Args {
		if a.View != nil && a.View.st != nil && a.View.st.dev == s.dev && a.Access&AccessWrite != 0 && !a.View.st.readOnly {
			a.View.st.fail(err)
		}
	}
}

// fail keeps the first error. dev.mu is held. It does not change a stream that
// was closed without an error: what it wrote stays readable. A stream that is
// closing refuses new work, which is no error of the stream.
func (s *Stream) fail(err error) {
	if s.closing != nil && errors.Is(err, errStreamClosed) {
		return
	}
	if s.internal && !errors.Is(err, ErrDeviceLost) {
		return
	}
	if !s.closed {
		s.poisoned(err)
	}
}

// poisoned keeps the first error, also of work that ends while the stream is being
// closed. dev.mu is held.
func (s *Stream) poisoned(err error) {
	if s.err == nil {
		s.err = err
		s.dev.changes++
	}
}

// Fail poisons the stream with err, as a failing op does; during a capture only
// the capture fails. A nil error counts as ErrInvalid.
func (s *Stream) Fail(err error) {
	s = s.made()
	if err == nil {
		err = fmt.Errorf("Stream.Fail(nil): %w", ErrInvalid)
	}
	if s.failCapture("", "", err) == nil {
		s.poison(err)
	}
}

// poison keeps the first error, even during a capture.
func (s *Stream) poison(err error) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.fail(err)
}

// Err returns the error that poisoned the stream, ErrClosed after Close, or
// nil. Work that has not run yet may still fail; Synchronize reports that.
func (s *Stream) Err() error {
	s = s.made()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.state()
}
