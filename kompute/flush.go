package kompute

import (
	"context"
	"time"
)

// Flush submits all work enqueued so far without waiting for it, but waits for room
// as Enqueue does. During a capture there is none to submit. It returns the stream's
// error.
func (s *Stream) Flush() error {
	s = s.made()
	_, err := s.flush(s.context())
	return err
}

// lock takes s.mu, unless ctx ends first: others may hold it while they wait for
// the device.
func (s *Stream) lock(ctx context.Context) error {
	if ctx.Done() == nil {
		s.mu.Lock()
		return nil
	}
	for wait := time.Microsecond; !s.mu.TryLock(); wait = min(2*wait, lastSlice) {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(wait)
	}
	return nil
}

// flush is Flush, and returns the point after the submitted work. ctx ends its
// waiting.
func (s *Stream) flush(ctx context.Context) (mark, error) {
	if err := s.lock(ctx); err != nil {
		s.dev.mu.Lock()
		defer s.dev.mu.Unlock()
		return mark{s, s.submitted}, err
	}
	defer s.mu.Unlock()
	return s.flushLocked(ctx)
}

// flushLocked is flush with s.mu held, which it gives up while it waits.
func (s *Stream) flushLocked(ctx context.Context) (mark, error) {
	for {
		s.dev.mu.Lock()
		last, idle := mark{s, s.submitted}, s.err != nil || s.closed || s.capture != nil
		s.dev.mu.Unlock()
		if idle {
			return last, s.Err()
		}
		done := s.onHost("submit", "submit")
		value, err := s.queue.flush()
		if err == errBusy {
			err = s.awaitRoom(ctx)
			done()
			if err != nil {
				return last, err
			}
			continue
		}
		done()
		if err != nil {
			s.dev.noteLost(err)
			s.poison(err)
			return last, err
		}
		return mark{s, value}, s.Err()
	}
}

// awaitRoom gives up s.mu until there is room for more work, or ctx is done. If that
// is the stream's own context, the stream is poisoned: what it has collected would
// grow without bound.
func (s *Stream) awaitRoom(ctx context.Context) error {
	s.mu.Unlock()
	err := s.queue.waitForRoom(ctx)
	s.mu.Lock()
	if err != nil && (ctx.Err() == nil || s.context().Err() != nil) {
		s.poison(err)
	}
	return err
}

// wait waits for m, whose work was submitted.
func (m mark) wait(ctx context.Context) error {
	defer m.stream.onHost("wait", "wait")()
	err := m.stream.queue.wait(ctx, m.value)
	if err != nil && ctx.Err() == nil {
		m.stream.dev.noteLost(err)
		m.stream.poison(err)
	}
	return err
}

// reach returns when m is reached, for the work of another stream, or an error other than lack of memory. A wait that
// fails for that is repeated: it says nothing about m, and that work must not run ahead of it.
func (m mark) reach() error {
	for {
		err := m.stream.queue.wait(context.Background(), m.value)
		if !lacksMemory(err) {
			return err
		}
		time.Sleep(lastSlice)
	}
}

// lastStats adds the stream's counters to the device's before its queue is closed.
func (s *Stream) lastStats() {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.dev.past.add(s.stats())
	s.counted = true
}

// Synchronize submits all work enqueued so far and waits until it is done. It
// returns the stream's error, or the context's if that ends first.
func (s *Stream) Synchronize(ctx context.Context) error {
	s = s.made()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.failCapture("synchronize", "the region would have to run", nil); err != nil {
		return err
	}
	m, err := s.flush(ctx)
	if err != nil {
		return err
	}
	s.dev.mu.Lock()
	pending := m.pending()
	s.waits++
	s.dev.mu.Unlock()
	if pending {
		if err := m.wait(ctx); err != nil {
			return err
		}
	}
	return s.Err()
}
