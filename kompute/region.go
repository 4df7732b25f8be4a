package kompute

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"
)

// Region is work that was captured once, to be replayed: see Stream.Capture.
// Its methods may be called from any goroutine. Those of a nil or zero Region
// return ErrInvalid.
//
// Ordering: a replay is work of the stream that the region was captured on. It
// runs after everything enqueued there before, and before everything enqueued
// after. Work of other streams on the same tensors is ordered on the device, as
// for single ops. Replays run one after the other.
//
// Content: inputs that the host wrote since the last replay are uploaded before
// the next one. Tensors that a replay writes are up to date on the device, and
// are read like any other tensor.
//
// Lifetime: the region keeps the memory of its transients, which regions of a stream
// share, until it or its stream is closed. It does not keep inputs and results open.
//
// Errors: a replay that this package rejects returns the error and leaves the stream unchanged. One
// that the driver rejects, or that fails later, poisons the stream.
type Region struct {
	s     *Stream
	uses  []regionUse // of storage that the caller owns
	names []string    // of the ops
	stats RegionStats
	rows  rowCalls // of one replay

	traces *RegionDescription // the description for traces; guarded by s.mu

	handle unsafe.Pointer // of the native region
	cpu    *cpuRegion

	// Guarded by dev.mu.
	checked uint64 // Device.changes when the caller's storage was last checked
	entered uint64 // Device.failures when the last replay began
	noted   uint64 // Device.changes when the replays' writes were last recorded
	closed  bool
	users   int // calls that use handle, replays that have not run
	replays uint64
}

// RegionStats counts the work of a region, which is the same in every replay.
type RegionStats struct {
	Ops        uint64 // captured
	FusedOps   uint64 // left after fusion
	Dispatches uint64 // of one replay
	// Barriers counts those of one replay: what RegionDescription marks between
	// dispatches, and on Vulkan also those between the region and other work.
	Barriers uint64
	// Overlaps counts dispatches that wait for results themselves instead of at a
	// barrier (WithOverlap). With KOMPUTE_GO_VALIDATION=1 they do both.
	Overlaps         uint64
	DescriptorWrites uint64 // once, when it was captured
	RecordedCommands uint64 // once, when it was captured
	// TransientBytes is the memory of the region's own tensors, which it shares with other regions of
	// its stream, and TransientBytesUnplanned what it would be if the tensors did not share memory.
	TransientBytes, TransientBytesUnplanned int64
	RecordTime                              time.Duration // to fuse, plan and record
	Replays                                 uint64        // so far
}

// newRegion makes the backend-independent part of a region. The capture's
// transients are closed.
func newRegion(c *capture) *Region {
	r := &Region{s: c.s}
	r.names = make([]string, len(c.ops))
	for i, op := range c.ops {
		r.names[i] = op.Name
		r.rows.count(&op)
	}
	c.s.dev.mu.Lock()
	defer c.s.dev.mu.Unlock()
	for i := range c.uses {
		u := &c.uses[i]
		if u.owned = u.st.transientOf(c); !u.owned && u.st.bytes > 0 {
			r.uses = append(r.uses, *u)
			u.st.regions++
		}
	}
	r.uses = slices.Clip(r.uses)
	return r
}

// transientOf reports whether the storage belongs to the region that c captures, since
// c's scope or one inside it owned it when it was closed. dev.mu is held.
func (st *storage) transientOf(c *capture) bool {
	return st.closed.Load() && st.scope.within(c.scope)
}

// Replay enqueues the region once and starts it, together with all work of the
// stream before it. It neither records nor allocates anything. It waits for the
// device only if 32 submissions of the stream are under way: until one of them is
// done, or ctx is. On a GPU, more than 64 MB of inputs that the host has written are
// uploaded in pieces, each of which waits for earlier ones, whatever ctx says.
//
// It returns ErrClosed, naming the op, if the region, its stream or a tensor of
// the caller's was closed; the error of a stream that failed to make an input;
// and the stream's or the context's error.
func (r *Region) Replay(ctx context.Context) error { return r.ReplayN(ctx, 1) }

// ReplayN is Replay n times in a row, as one submission. 0 times does nothing.
//
// Errors are those of Replay, and ErrInvalid for a negative n or one above
// 65,536.
func (r *Region) ReplayN(ctx context.Context, n int) error {
	r = r.made()
	if n < 0 || n > mostReplays {
		return fmt.Errorf("Region.ReplayN: %d times: %w", n, ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.s.lock(ctx); err != nil {
		return err
	}
	defer r.s.mu.Unlock()
	for {
		if r.s.capture != nil {
			return r.s.failCapture("replay", "a region inside a region", nil)
		}
		if err := r.usable(); err != nil || n == 0 {
			return err
		}
		if r.s.dev.opts.trace != nil {
			defer r.s.onHost("replay", "replay", "times", n)()
			return r.traced(ctx, n)
		}
		if err := r.s.queue.replay(r, n); err != errBusy {
			return err
		}
		if err := r.s.awaitRoom(ctx); err != nil {
			return err
		}
	}
}

// mostReplays bounds how many replays one call can ask for.
const mostReplays = 1 << 16

// usable returns why the region cannot be replayed.
func (r *Region) usable() error {
	if r == noRegion {
		return errNilRegion
	}
	r.s.dev.mu.Lock()
	defer r.s.dev.mu.Unlock()
	if err := r.s.state(); err != nil {
		return err
	}
	if r.closed {
		return errRegionClosed
	}
	return nil
}

var errRegionClosed = fmt.Errorf("the region is %w", ErrClosed)

// enter returns why the region cannot be replayed now, or keeps it from being
// freed until leave.
func (r *Region) enter() error {
	r.s.dev.mu.Lock()
	defer r.s.dev.mu.Unlock()
	return r.enterLocked()
}

// enterLocked is enter with dev.mu held. It checks the caller's tensors only if
// a tensor that a region uses, or a stream, has changed since the last check.
func (r *Region) enterLocked() error {
	if r.closed {
		return errRegionClosed
	}
	if r.checked != r.s.dev.changes {
		for i := range r.uses {
			if err := r.uses[i].check(); err != nil {
				return err
			}
		}
		r.checked = r.s.dev.changes
	}
	r.users++
	r.entered = r.s.dev.failures
	return nil
}

// check returns why a replay cannot use a storage. dev.mu is held.
func (u *regionUse) check() error {
	if u.st.closed.Load() {
		return &OpError{Op: u.op, Reason: "an operand of a captured op", Err: u.st.usable()}
	}
	if !u.needs {
		return nil
	}
	return u.st.contentErr()
}

func (u *regionUse) access() Access {
	var access Access
	if u.needs {
		access |= AccessRead
	}
	if u.writes {
		access |= AccessWrite
	}
	return access
}

// enqueued records how replays use the caller's storage. dev.mu is held, but may not
// have been since enter: a tensor that was closed or has failed meanwhile counts as
// later than these replays. It keeps its error, and the next replay checks it.
func (r *Region) enqueued(times int) {
	r.replays += uint64(times)
	r.s.replays += uint64(times)
	r.s.rows.add(r.rows, uint64(times))
	if r.noted == r.s.dev.changes {
		return
	}
	unchanged := r.checked == r.s.dev.changes
	for i := range r.uses {
		if u := &r.uses[i]; u.writes && u.check() == nil && (u.st.err == nil || u.st.failedAt <= r.entered) {
			u.st.madeBy(r.s)
		}
	}
	r.noted = r.s.dev.changes
	if unchanged {
		r.checked = r.noted // the changes by madeBy are this region's own
	}
}

// Stats returns the region's counters.
func (r *Region) Stats() RegionStats {
	r = r.made()
	r.s.dev.mu.Lock()
	defer r.s.dev.mu.Unlock()
	out := r.stats
	out.Replays = r.replays
	return out
}

// Close frees the region. Replays that were enqueued still run; the memory of
// its transients is freed after the last of them, unless other regions share it. Closing again does nothing.
func (r *Region) Close() error {
	r = r.made()
	d := r.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if !r.closed {
		r.close()
		r.s.regions = slices.DeleteFunc(r.s.regions, func(other *Region) bool { return other == r })
	}
	return nil
}

// close frees the region as soon as nothing uses it. dev.mu is held.
func (r *Region) close() {
	if r.closed {
		return
	}
	r.closed = true
	r.forgetUses()
	if r.users == 0 {
		r.s.queue.freeRegion(r)
	}
}

// forgetUses undoes what newRegion did to the caller's tensors. dev.mu is held.
func (r *Region) forgetUses() {
	for i := range r.uses {
		r.uses[i].st.regions--
	}
}

// closeRegions closes the regions of a stream whose work is done, and waits for
// calls that use them.
func (s *Stream) closeRegions() {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(s.regions) > 0 { // others may close some while this waits
		r := s.regions[len(s.regions)-1]
		s.regions = s.regions[:len(s.regions)-1]
		r.close()
		for r.users > 0 {
			d.cond.Wait()
		}
	}
}

// leave ends one use of the region that users counts. dev.mu is held.
func (r *Region) leave() {
	if r.users--; r.users == 0 && r.closed {
		r.s.queue.freeRegion(r)
	}
	r.s.dev.cond.Broadcast()
}
