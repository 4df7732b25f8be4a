package kompute

import (
	"errors"
	"time"
)

// OpTime is the time that a stream's calls of one op took.
type OpTime struct {
	Calls      uint64 // those that ran something on the device
	Dispatches uint64
	Time       time.Duration // on the device, from start to end of each dispatch, added up
	// Host is the host's time to enqueue the calls: checks, the choice of kernels, and submitting a
	// full window.
	Host time.Duration
}

// timing selects what is measured of ops; it matches kpx_timing.
type timing uint32

const (
	timeNothing timing = iota
	timeSums           // for StreamStats.OpTimes
	timeSpans          // and each dispatch, for a Trace
)

// WithOpTimes makes every stream of the device measure its ops from the start,
// as Stream.StartTiming does. DeviceStats.OpTimes adds them up. On a device
// without timestamps only the host's time is measured.
func WithOpTimes() Option {
	return func(o *options) { o.opTimes = true }
}

// StartTiming measures the ops enqueued from now on, on host and device, for
// StreamStats.OpTimes, until StopTiming. Pending work is submitted first.
// Measuring slows work down: dispatches usually no longer overlap, and windows
// take longer to record. Replays are not measured this way; see Region.Profile.
// On the CPU backend times are wall-clock times.
//
// It returns the stream's error, ErrCapture during a capture, or ErrUnsupported
// if the device does not support timestamps.
func (s *Stream) StartTiming() error {
	s = s.made()
	return s.setTiming(max(s.dev.opts.timing(), timeSums), true)
}

// StopTiming ends what StartTiming or WithOpTimes started: ops enqueued from now
// on are not measured. Times measured so far stay in StreamStats.OpTimes.
// Stopping again does nothing. It returns the stream's error, or ErrCapture
// during a capture.
func (s *Stream) StopTiming() error {
	s = s.made()
	timing := s.dev.opts.timing()
	if timing == timeSums {
		timing = timeNothing // a Trace still measures
	}
	return s.setTiming(timing, false)
}

// setTiming submits pending work, and sets what is measured of later ops.
func (s *Stream) setTiming(timing timing, host bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capture != nil {
		return s.failCapture("timing", "the stream has to start its work", nil)
	}
	if _, err := s.flushLocked(s.context()); err != nil {
		return err
	}
	if err := s.queue.timeOps(timing); err != nil {
		return err
	}
	s.timesHost = host
	return nil
}

// timing is what streams measure from the start.
func (o *options) timing() timing {
	switch {
	case o.trace != nil:
		return timeSpans
	case o.opTimes:
		return timeSums
	}
	return timeNothing
}

// measure starts the measurements on a new stream that the device's options ask
// for. On a device without timestamps only the host's time is measured.
func (s *Stream) measure() error {
	timing := s.dev.opts.timing()
	if timing == timeNothing {
		return nil
	}
	s.timesHost = true
	if err := s.queue.timeOps(timing); !errors.Is(err, ErrUnsupported) {
		return err
	}
	return nil
}

// hostTimer measures the host's time for an op.
type hostTimer struct {
	start time.Time
	end   func()
}

// enqueueing starts to measure an op. s.mu is held.
func (s *Stream) enqueueing(op string) hostTimer {
	return hostTimer{time.Now(), s.onHost("enqueue", op)}
}

// done adds the time that the op took. s.mu is held.
func (t hostTimer) done(s *Stream, op string) {
	t.end()
	if !s.timesHost {
		return
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.hostTimes == nil {
		s.hostTimes = make(map[string]time.Duration)
	}
	s.hostTimes[op] += time.Since(t.start)
}

// addHostTimes adds the host's times to the device's. dev.mu is held.
func (s *Stream) addHostTimes(out *StreamStats) {
	if len(s.hostTimes) == 0 {
		return
	}
	if out.OpTimes == nil {
		out.OpTimes = make(map[string]OpTime)
	}
	for op, host := range s.hostTimes {
		t := out.OpTimes[op]
		t.Host = host
		out.OpTimes[op] = t
	}
}

// addOpTimes adds a stream's times to sums.
func addOpTimes(sums, times map[string]OpTime) map[string]OpTime {
	if sums == nil && len(times) > 0 {
		sums = make(map[string]OpTime)
	}
	for op, t := range times {
		sum := sums[op]
		sum.Calls += t.Calls
		sum.Dispatches += t.Dispatches
		sum.Time += t.Time
		sum.Host += t.Host
		sums[op] = sum
	}
	return sums
}
