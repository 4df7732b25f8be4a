package kompute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// RegionProfile says where the time of a replay goes.
type RegionProfile struct {
	Times int // replays that each median is of
	// Replay is the median time of one replay, from its start to its end on the
	// device, with nothing measured inside. It is what the region takes.
	Replay time.Duration
	// Timed is the same of replays that measure each dispatch. What it is more
	// than Replay is the cost of measuring, and of dispatches that no longer run
	// side by side.
	Timed      time.Duration
	Dispatches []DispatchProfile // in the order in which they run
}

// DispatchProfile is one dispatch of a region.
type DispatchProfile struct {
	Kernel  string
	Op      string   // that it is a part of
	Fused   []string // the ops that this op was fused from; none if it was not
	Grid    [3]uint32
	Barrier bool // it waits for what ran before
	// Time is the median from its start to its end.
	Time time.Duration
	// Gap is the median from the end of the dispatch before, or the start of the
	// replay, to its start: the barrier, if there is one, and a timestamp.
	Gap time.Duration
}

// span is when something ran on the device, in nanoseconds of the device's
// clock as the host sees it; it is kpx_span.
type span struct{ start, end uint64 }

func (s span) length() uint64 { return s.end - min(s.start, s.end) }

// Profile replays the region 2·times times and measures the device's time: half
// of the replays as a whole, and half with a timestamp before and after each
// dispatch, with which drivers as a rule no longer run dispatches side by side.
// It returns when they are done. What replays do to the caller's tensors they do here too, as often.
//
// Times are by the device's clock, whose steps may be as long as a microsecond.
// On the CPU backend a dispatch is one op, and times are the wall's.
//
// It needs work of its own, recorded when it is first called: normal replays
// stay as they are. Other calls that append to the stream wait meanwhile, for
// one replay at a time.
//
// Errors are those of Replay; ErrInvalid for times below 1; and ErrUnsupported
// if the device writes no timestamps, before anything has run.
func (r *Region) Profile(ctx context.Context, times int) (*RegionProfile, error) {
	if times < 1 || times > mostReplays {
		return nil, fmt.Errorf("Region.Profile: %d times: %w", times, ErrInvalid)
	}
	p := &RegionProfile{Times: times}
	if err := p.listDispatches(r); err != nil {
		return nil, err
	}
	n := len(p.Dispatches)
	wholes, timed := make([]uint64, times), make([]uint64, times)
	lengths, gaps := make([]uint64, n*times), make([]uint64, n*times)
	for i := range times {
		whole, err := r.profileOnce(ctx, nil)
		if err != nil {
			return nil, err
		}
		wholes[i] = whole.length()
		spans := make([]span, n)
		if whole, err = r.profileOnce(ctx, spans); err != nil {
			return nil, err
		}
		timed[i] = whole.length()
		last := whole.start
		for k, at := range spans {
			lengths[k*times+i] = at.length()
			gaps[k*times+i] = at.start - min(last, at.start)
			last = at.end
		}
	}
	p.Replay, p.Timed = medianTime(wholes), medianTime(timed)
	for k := range p.Dispatches {
		p.Dispatches[k].Time = medianTime(lengths[k*times : (k+1)*times])
		p.Dispatches[k].Gap = medianTime(gaps[k*times : (k+1)*times])
	}
	return p, nil
}

// medianTime sorts nanoseconds and returns the middle one.
func medianTime(ns []uint64) time.Duration {
	slices.Sort(ns)
	return time.Duration(ns[len(ns)/2])
}

// listDispatches fills in what is known without running anything.
func (p *RegionProfile) listDispatches(r *Region) error {
	text := r.JSON()
	if text == nil {
		return errRegionClosed
	}
	var t regionText
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("%w: a region's description: %v", ErrInternal, err)
	}
	next := 0
	for _, op := range t.Ops {
		for range op.Dispatches {
			if next == len(t.Dispatches) {
				break
			}
			d := t.Dispatches[next]
			p.Dispatches = append(p.Dispatches, DispatchProfile{
				Kernel: d.Kernel, Op: op.Op, Fused: op.Fused, Grid: d.Grid, Barrier: d.Barrier,
			})
			next++
		}
	}
	return nil
}

// traced replays the region n times, one by one, and adds each dispatch to the
// device's trace. s.mu is held.
func (r *Region) traced(n int) error {
	if r.listed == nil {
		var p RegionProfile
		if err := p.listDispatches(r); err != nil {
			return err
		}
		r.listed = p.Dispatches
	}
	spans := make([]span, len(r.listed))
	for range n {
		_, err := r.s.queue.profile(context.Background(), r, spans)
		if errors.Is(err, ErrUnsupported) {
			return r.s.queue.replay(r, n) // no timestamps, at the first
		}
		if err != nil {
			return err
		}
		for i, d := range r.listed {
			r.s.onDevice(d.Op, d.Kernel, spans[i])
		}
	}
	return nil
}

// profileOnce replays the region once and waits for it. It returns when it ran,
// and fills spans unless they are nil.
func (r *Region) profileOnce(ctx context.Context, spans []span) (span, error) {
	if err := ctx.Err(); err != nil {
		return span{}, err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.capture != nil {
		return span{}, r.s.failCapture("profile", "a region inside a region", nil)
	}
	if err := r.usable(); err != nil {
		return span{}, err
	}
	whole, err := r.s.queue.profile(ctx, r, spans)
	if err == nil {
		r.s.pendingOps, r.s.pendingBytes = 0, 0
	}
	return whole, err
}
