package kompute

import (
	"errors"
	"fmt"
)

// ErrCapture is the error that every CaptureError wraps.
var ErrCapture = errors.New("cannot be captured")

// CaptureError reports which operation made a capture fail, and why. It wraps
// ErrCapture and the operation's error, if any.
type CaptureError struct {
	Op     string // basename of the op, or what else was called; may be empty
	Reason string
	Err    error // may be nil
}

// Error returns operation and reason in one line.
func (e *CaptureError) Error() string {
	text := ErrCapture.Error()
	if e.Op != "" {
		text = e.Op + " " + text
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrCapture and the operation's error.
func (e *CaptureError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrCapture}
	}
	return []error{ErrCapture, e.Err}
}

// Capture calls fn and records what it enqueues on s as a region instead of
// running it. Work enqueued before is submitted and is not part of the region.
//
// A scope is open around fn. Tensors that it owns at the end are the region's
// transients: they are closed, and the region keeps memory for them. Those
// passed to Result are results: their storage stays the same, and each replay
// overwrites it. All other tensors that the ops use, inputs and those updated
// in place, belong to the caller, who must keep them open as long as the region
// is replayed. Each replay sees their content at that time; a Constant keeps
// its own.
//
// A region is the same work every time, so nothing in fn may depend on values
// that the device computes. Capture fails with a *CaptureError if fn reads or
// writes on the host what the captured work writes; calls Synchronize, Record,
// Wait or a nested Capture; enqueues an op that the device does not support (a
// region has no CPU fallback); or if any op fails. Then none of it has run, and
// the stream is unchanged. A poisoned stream returns the error that poisoned
// it. Other goroutines must not use s meanwhile: what they enqueue would become
// part of the region.
func (s *Stream) Capture(fn func(s *Stream)) (*Region, error) {
	s = s.made()
	c, err := s.beginCapture(fn)
	if err != nil {
		return nil, err
	}
	defer c.end() // fn may panic
	defer s.onHost("capture", "capture")()
	fn(s)
	return c.finish()
}

// Result makes t a result of the region being captured on s, and returns it:
// like Keep, it moves t out of the capture's scope. Without a capture it
// changes nothing, so that the same function can run eagerly.
func Result[T Element](s *Stream, t *Tensor[T]) *Tensor[T] {
	if s = s.made(); s == noStream || t.Err() != nil {
		return t
	}
	s.dev.mu.Lock()
	c := s.capture
	if c != nil && t.v.st.scope.within(c.scope) {
		c.results = append(c.results, t.v.st)
	}
	s.dev.mu.Unlock()
	if c == nil {
		return t
	}
	return Keep(c.scope, t)
}

// capture is the state of a capture under way. It is guarded by dev.mu; ops are
// added with s.mu held as well.
type capture struct {
	s     *Stream
	scope *Scope
	ops   []Op
	uses  []regionUse
	index map[*storage]int // into uses
	// results were moved out of the scope. They have no content yet.
	results []*storage
	err     *CaptureError // the first
	ended   bool
}

// regionUse describes how a region uses one storage.
type regionUse struct {
	st     *storage
	op     string // the first that uses it
	first  int    // its index
	owned  bool   // by the region: a transient
	needs  bool   // the previous content is read
	writes bool
}

func (s *Stream) beginCapture(fn func(*Stream)) (*capture, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capture != nil {
		return nil, s.failCapture("capture", "a capture is under way", nil)
	}
	if fn == nil {
		return nil, &CaptureError{Op: "capture", Reason: "no function", Err: ErrInvalid}
	}
	if _, err := s.flushLocked(s.context()); err != nil {
		return nil, err
	}
	if err := s.queue.beginCapture(); err != nil {
		return nil, &CaptureError{Op: "capture", Err: err}
	}
	c := &capture{s: s, scope: s.Scope(), index: make(map[*storage]int)}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.capture = c
	return c, nil
}

// failCapture makes the current capture fail, unless it has failed already, and
// returns its error; nil if no capture is under way.
func (s *Stream) failCapture(op, reason string, err error) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.capture == nil {
		return nil
	}
	return s.capture.fail(op, reason, err)
}

// fail keeps the first error. dev.mu is held.
func (c *capture) fail(op, reason string, err error) error {
	if c.err == nil {
		var at *OpError
		if op == "" && errors.As(err, &at) {
			op = at.Op
		}
		c.err = &CaptureError{Op: op, Reason: reason, Err: err}
	}
	return c.err
}

// refuse makes the capture fail because of an op. dev.mu is held.
func (c *capture) refuse(op Op, err error) {
	_ = c.fail(op.Name, "", err)
}

// failed returns the error, nil if there is none. dev.mu is held.
func (c *capture) failed() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// note records an appended op. dev.mu is held.
func (c *capture) note(op Op) {
	c.ops = append(c.ops, op)
	for _, a := range op.Args {
		if a.View == nil {
			continue
		}
		st := a.View.st
		i, known := c.index[st]
		if !known {
			i = len(c.uses)
			c.index[st] = i
			c.uses = append(c.uses, regionUse{st: st, op: op.Name, first: len(c.ops) - 1, needs: !a.overwrites()})
		} else if c.uses[i].first == len(c.ops)-1 && !a.overwrites() {
			c.uses[i].needs = true // one op may read a storage that an earlier operand of it overwrites
		}
		if a.Access&AccessWrite != 0 {
			c.uses[i].writes = true
			st.capture = c
		}
	}
}

// hostAccess fails the capture, if any, that writes the storage which the host
// is about to access. dev.mu is held.
func (st *storage) hostAccess(what string) error {
	c := st.capture
	if c == nil {
		return nil
	}
	reason := "the host accesses what the region writes"
	if i, known := c.index[st]; known {
		reason = fmt.Sprintf("the host accesses what %s of the region writes", c.uses[i].op)
	}
	return c.fail(what, reason, nil)
}

// finish builds the region from the captured ops.
func (c *capture) finish() (*Region, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dev.mu.Lock()
	c.closeScope()
	err := c.failed()
	s.dev.mu.Unlock()
	if err != nil {
		c.endLocked()
		return nil, err
	}
	r := newRegion(c)
	if err := s.queue.endCapture(r, c); err != nil {
		s.failIfLost(err)
		s.dev.mu.Lock()
		r.forgetUses()
		err = c.fail("capture", "", err)
		s.dev.mu.Unlock()
		c.ended = true // the queue has ended it
		c.release()
		return nil, err
	}
	c.ended = true
	c.release()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.regions = append(s.regions, r)
	return r, nil
}

// end aborts a capture that did not finish.
func (c *capture) end() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.endLocked()
}

func (c *capture) endLocked() {
	if c.ended {
		return
	}
	c.ended = true
	c.s.dev.mu.Lock()
	c.closeScope()
	c.s.dev.mu.Unlock()
	c.s.queue.abortCapture(c)
	_ = c.s.failCapture("capture", "fn did not return", nil)
	c.release()
}

// closeScope closes what the capture's scope owns. dev.mu is held.
func (c *capture) closeScope() {
	if !c.scope.open {
		_ = c.fail("scope", "the scope around the capture was closed", nil)
		return
	}
	for c.s.scope != c.scope {
		c.s.scope.close()
	}
	c.scope.close()
}

// release makes the stream and the captured storage usable again. Storage whose
// first content the capture would have made still has none.
func (c *capture) release() {
	d := c.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	c.s.capture = nil
	reason := fmt.Errorf("the region that makes it was not replayed yet: %w", ErrInvalid)
	if c.err != nil {
		reason = c.err
	}
	for _, u := range c.uses {
		u.st.capture = nil
		if u.writes {
			u.st.notMade(reason)
		}
	}
	for _, st := range c.results {
		st.notMade(reason)
	}
}

// notMade records why the storage has no content, unless it had some or is
// empty. dev.mu is held.
func (st *storage) notMade(reason error) {
	if !st.filled && st.bytes > 0 && st.err == nil {
		st.fail(reason)
	}
}
