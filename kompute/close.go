package kompute

import "context"

// Close waits for the stream's work, closes its scopes and regions and frees it.
// What it wrote stays readable. Closing again does nothing. It returns the error
// that poisoned the stream. Shutdown is Close with a deadline.
//
// On a device that hangs, Close returns ErrDeviceLost after the limit of
// [WithHangLimit]. What the device may still use is then never freed: tensors,
// regions and staging memory of the work that hangs.
func (s *Stream) Close() error { return s.Shutdown(context.Background()) }

// Shutdown closes the stream like Close, but waits no longer than ctx allows. It
// returns the error that poisoned the stream, or the context's if that ends
// first. In both cases the stream is closed: later calls return ErrClosed.
//
// If the context ends first, nothing has been freed yet. Enqueued work still
// runs, and the stream's scopes, regions and memory are freed in the background
// once the device has finished it. Calling Close or Shutdown again waits for
// that. Tensors that the work uses stay readable, and may be closed.
func (s *Stream) Shutdown(ctx context.Context) error {
	if s = s.made(); s == noStream {
		return nil
	}
	s.dev.mu.Lock()
	first := s.startClosing()
	s.dev.mu.Unlock()
	if first {
		finishClosing(ctx, s.finish)
	}
	if err := closed(ctx, s.closing); err != nil {
		return err
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.err
}

// startClosing makes the stream refuse new work. It returns true if the caller
// must call finish. dev.mu is held.
func (s *Stream) startClosing() bool {
	if s.closing != nil {
		return false
	}
	s.closing = make(chan struct{})
	return true
}

// finishClosing calls finish, in the background if ctx can end.
func finishClosing(ctx context.Context, finish func()) {
	if ctx.Done() == nil {
		finish()
		return
	}
	go finish()
}

// isFreed reports whether the device was closed, and nothing of it is left. d.mu is held.
func (d *Device) isFreed() bool {
	if d.closing == nil {
		return false
	}
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// closed waits until the channel is closed, or ctx is done.
func closed(ctx context.Context, closing <-chan struct{}) error {
	select {
	case <-closing:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-closing: // both are ready
		return nil
	default:
		return ctx.Err()
	}
}

// finish waits for the stream's work and frees its resources.
func (s *Stream) finish() {
	defer close(s.closing)
	m := s.lastFlush()
	if err := m.wait(context.Background()); err != nil {
		// This must come before the queue is closed: it then tells those who wait for lost work
		// that it is done, and they must find the error.
		s.dev.mu.Lock()
		s.poisoned(err)
		s.dev.mu.Unlock()
	}
	s.closeRegions()
	s.lastStats()
	s.queue.close()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.done = ^uint64(0)
	delete(s.dev.streams, s)
	s.dev.cond.Broadcast()
}

// lastFlush submits what was enqueued, and closes capture and scopes.
func (s *Stream) lastFlush() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.capture; c != nil {
		_ = s.failCapture("close", "the stream was closed", nil)
		c.endLocked()
	}
	m, err := s.flushLocked(context.Background()) // a failure poisons the stream
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.closed = true
	if err != nil {
		m.value = s.queue.abandon()
	}
	for s.scope != nil {
		s.scope.close()
	}
	return m
}

// Close waits for all work, closes the streams, and frees the device and the
// memory of every tensor on it. Streams and tensors that are still open return
// ErrClosed from then on. Closing again does nothing. It returns the first error
// that poisoned one of the streams. Shutdown is Close with a deadline. On a device
// that hangs it returns as Stream.Close does.
func (d *Device) Close() error { return d.Shutdown(context.Background()) }

// Shutdown closes the device like Close, but waits no longer than ctx allows. It
// returns the same as Close, or the context's error if that ends first. In both
// cases the device, its streams and its tensors are closed: later calls return
// ErrClosed.
//
// If the context ends first, some streams may have been freed, and nothing else.
// Enqueued work still runs. The streams, the memory of the tensors and the
// device are freed in the background once that work has finished and no call
// uses the device; if the work never finishes, they stay until the program ends.
// Calling Close or Shutdown again waits for that. Memory passed to Wrap must stay
// valid until one of these calls returns without the context's error.
func (d *Device) Shutdown(ctx context.Context) error {
	if d = d.made(); d == noDevice {
		return nil
	}
	d.mu.Lock()
	if d.closing == nil {
		d.closing = make(chan struct{})
		d.closed.Store(true)
		var streams []*Stream // those not being closed already
		for s := range d.streams {
			if s.startClosing() {
				streams = append(streams, s)
			}
		}
		d.mu.Unlock()
		finishClosing(ctx, func() { d.finish(streams) })
	} else {
		d.mu.Unlock()
	}
	if err := closed(ctx, d.closing); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closeErr
}

// finish finishes the given streams, waits for the others and for calls that use
// the device, and frees it.
func (d *Device) finish(streams []*Stream) {
	defer close(d.closing)
	for _, s := range streams {
		s.finish()
		d.mu.Lock()
		if d.closeErr == nil {
			d.closeErr = s.err
		}
		d.mu.Unlock()
	}
	d.mu.Lock()
	for d.users > 0 || len(d.streams) > 0 {
		late := d.anyStream()
		if late == nil {
			d.cond.Wait()
			continue
		}
		d.mu.Unlock()
		_ = late.Close() // created meanwhile, or being closed
		d.mu.Lock()
	}
	for r := range d.reads {
		r.forget()
	}
	for r := range d.algorithms {
		r.closed = true
		r.free()
	}
	for r := d.resources; r != nil; r = r.next {
		r.free()
	}
	d.mu.Unlock()
	d.backend.close()
}
