package kompute

import (
	"context"
	"errors"
	"fmt"
)

func (q *vulkanQueue) beginCapture() error {
	q.submitted = false
	return q.b.native.beginCapture(q.handle)
}

func (q *vulkanQueue) abortCapture(*capture) { q.b.native.abortCapture(q.handle) }

// captured records an op that the native library was asked to append to the
// region; err is its result.
func (q *vulkanQueue) captured(op *Op, err error) error {
	if no, is := err.(*unsupportedError); is {
		return fmt.Errorf("it would run on the CPU: %s: %w", no.reason, ErrUnsupported)
	}
	if err != nil {
		q.s.failIfLost(err)
		return err
	}
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	for i := range op.Args {
		if op.algorithm == nil && op.Args[i].View != nil {
			q.takeMade(op, i)
		}
	}
	q.s.capture.note(op.kept())
	return nil
}

func (q *vulkanQueue) endCapture(r *Region, _ *capture) error {
	q.submitted = false
	handle, err := q.b.native.endCapture(q.handle)
	q.b.logRefusals()
	if err != nil {
		return err
	}
	r.handle = handle
	r.stats = q.b.native.regionStats(handle)
	return nil
}

func (q *vulkanQueue) freeRegion(r *Region) { q.b.native.destroyRegion(r.handle) }

func (q *vulkanQueue) describe(r *Region) (*RegionDescription, error) {
	return parseDescription(q.b.native.describeRegion(r.handle))
}

// replay is one native call, which uploads changed inputs and orders the work.
func (q *vulkanQueue) replay(r *Region, times int) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.exit()
	q.submitted = false
	var value uint64
	err := q.retryOutOfMemory(func() (err error) {
		value, err = q.b.native.replay(q.handle, r.handle, times)
		return err
	})
	if err == errBusy {
		return err
	}
	q.replayed(r, times, value, err)
	q.submitted = err == nil
	return err
}

// exit reverses enter.
func (r *Region) exit() {
	r.s.dev.mu.Lock()
	defer r.s.dev.mu.Unlock()
	r.leave()
}

// replayed records replays that end at the timeline's value, or why they
// failed.
func (q *vulkanQueue) replayed(r *Region, times int, value uint64, err error) {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, ErrUnsupported) {
		return
	}
	q.s.submitted = max(q.s.submitted, value)
	r.enqueued(times) // some may have run even on an error
	if err != nil {
		q.s.fail(err)
	}
}

func (q *vulkanQueue) profile(ctx context.Context, r *Region, runs [][]span) (out []replayTime, err error) {
	for _, spans := range runs {
		one, err := q.profileOnce(ctx, r, spans)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// profileOnce records the replay before it waits for it, so that what happens to the
// tensors meanwhile comes after it.
func (q *vulkanQueue) profileOnce(ctx context.Context, r *Region, spans []span) (out replayTime, err error) {
	if err := r.enter(); err != nil {
		return out, err
	}
	defer r.exit()
	q.submitted = false
	value, err := q.b.native.startProfile(q.handle, r.handle, spans != nil)
	q.replayed(r, 1, value, err)
	if err != nil {
		return out, err
	}
	if err = q.wait(ctx, value); err != nil && err == ctx.Err() {
		return out, err
	}
	if err == nil {
		out.span, err = q.b.native.profileTimes(r.handle, spans)
	}
	if err != nil {
		q.s.poison(err)
	}
	return out, err
}
