package kompute

import (
	"context"
	"fmt"
)

// Event is a point in a stream's work.
type Event struct{ m mark }

// Record returns the point after everything enqueued so far, and starts that
// work.
func (s *Stream) Record() *Event {
	ev := &Event{}
	s.RecordInto(ev)
	return ev
}

// RecordInto is Record for an event that there is already, and allocates
// nothing. Nobody may use the event meanwhile; what waits for the point that it
// was before goes on doing so.
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
	m, _ := s.flush() // a failure poisons the stream, and the event with it
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	ev.m = m
}

// Wait makes what is enqueued on s from here on start after the event, which may
// be of another device: a stream of the GPU waits for one of the CPU, and the
// other way round. The caller does not wait. The wait is itself work of s: an
// event recorded behind it comes after both.
//
// A stream's own event, and one that is done, change nothing. An event lies
// behind work that was started, so that streams cannot wait for each other in a
// ring. Errors of the event's stream do not spread to s, but for a device that
// is lost before the event: s fails with ErrDeviceLost.
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

// known reports whether somebody has seen that the event is done.
func (ev *Event) known() bool {
	ev.m.stream.dev.mu.Lock()
	defer ev.m.stream.dev.mu.Unlock()
	return !ev.m.pending()
}

// Wait waits for the event. It returns the error of the event's stream, or the
// context's if that ends first, and ErrInvalid for an event that no stream has
// recorded.
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
