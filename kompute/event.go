package kompute

import (
	"context"
	"fmt"
)

// Event is a point in a stream's work.
type Event struct{ m mark }

// Record submits everything enqueued so far and returns an event for the point
// after it.
func (s *Stream) Record() *Event {
	ev := &Event{}
	s.RecordInto(ev)
	return ev
}

// RecordInto is Record into an existing event, without allocating. No other
// call may use the event meanwhile; waits for the event's earlier point are not
// affected.
func (s *Stream) RecordInto(ev *Event) {
	s = s.made()
	if ev == nil {
		s.Fail(fmt.Errorf("Stream.RecordInto: the event is nil: %w", ErrInvalid))
		return
	}
	if s == noStream {
		*ev = Event{}
		return
	}
	_ = s.failCapture("record", "an event inside a region", nil)
	m := s.flushForEvent()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	ev.m = m
}

// flushForEvent is flush whose context does not end the wait for s.mu: without the
// lock, nothing would be submitted, and the event would not cover the work before it.
func (s *Stream) flushForEvent() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, _ := s.flushLocked(s.context()) // a failure poisons the stream, and the event with it
	return m
}

// Wait makes work enqueued on s from now on start after the event, which may be
// of another device: a GPU stream can wait for a CPU stream and vice versa. The
// caller does not wait. The wait is itself work of s: an event recorded after
// it comes after both.
//
// Waiting for a stream's own event, or for one that is done, changes nothing.
// Work before an event is always submitted, so streams cannot wait for each
// other in a cycle. Errors of the event's stream do not spread to s, with one
// exception: if its device is lost before the event, s fails with
// ErrDeviceLost. For an event of another device, s also fails with an error of
// its driver, but not for lack of memory: then the wait is repeated.
func (s *Stream) Wait(ev *Event) {
	s = s.made()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev == nil || ev.m.stream == nil {
		s.Fail(fmt.Errorf("Stream.Wait: the event is nil, or was never recorded: %w", ErrInvalid))
		return
	}
	if s.failCapture("wait", "an event inside a region", nil) != nil {
		return
	}
	other := ev.m.stream
	if other == s || s.Err() != nil || ev.known() {
		return
	}
	if err := s.queue.hold(ev.m); err != nil {
		s.Fail(err)
	}
}

// Done reports whether Wait would return at once: the work before the event is
// done, or its device is lost. It does not wait.
func (ev *Event) Done() bool {
	return ev == nil || ev.m.stream == nil || ev.known() || ev.m.stream.queue.poll(ev.m.value)
}

// known reports whether the event is already known to be done.
func (ev *Event) known() bool {
	ev.m.stream.dev.mu.Lock()
	defer ev.m.stream.dev.mu.Unlock()
	return !ev.m.pending()
}

// Wait waits for the event. It returns the error of the event's stream, the
// context's if that ends first, or ErrInvalid if no stream has recorded the
// event.
func (ev *Event) Wait(ctx context.Context) error {
	if ev == nil || ev.m.stream == nil {
		return fmt.Errorf("Event.Wait: no stream has recorded the event: %w", ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !ev.known() {
		if err := ev.m.wait(ctx); err != nil {
			return err
		}
	}
	d := ev.m.stream.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	return ev.m.stream.err
}
