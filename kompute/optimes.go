package kompute

import "time"

// OpTime is the device's time that a stream's calls of one op took.
type OpTime struct {
	Calls      uint64 // that did anything
	Dispatches uint64
	Time       time.Duration // from start to end of each dispatch, added up
}

// TimeOps has the device measure each op that is enqueued from here on, for
// StreamStats.OpTimes, or no longer. Work that is pending is started first.
// It is for looking, not for every day: each dispatch then waits for the one
// before, and windows take longer to record. Replays are not measured this way;
// see Region.Profile. On the CPU backend times are the wall's.
//
// It returns the stream's error, or ErrUnsupported if the device writes no
// timestamps.
func (s *Stream) TimeOps(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capture != nil {
		return s.failCapture("time_ops", "the stream has to start its work", nil)
	}
	if err := s.flushLocked(); err != nil {
		return err
	}
	return s.queue.timeOps(on)
}
