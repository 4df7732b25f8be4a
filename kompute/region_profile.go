package kompute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// RegionProfile breaks down the time of a replay. As JSON, times are in
// nanoseconds.
type RegionProfile struct {
	Times int `json:"times"` // how many replays each median is of
	// Replay is the median time of one replay, from its start to its end on the
	// device, with nothing measured inside.
	Replay time.Duration `json:"replay_ns"`
	// Timed is the same for replays that measure each dispatch. Its excess over
	// Replay is the cost of measuring, and of dispatches that no longer
	// overlap.
	Timed time.Duration `json:"timed_ns"`
	// Workers is how many threads work on a replay of the CPU backend; 0 on others.
	Workers int `json:"workers,omitempty"`
	// Waiting is the share of the workers' time, between 0 and 1, in which they wait for
	// each other in a measured replay of the CPU backend, the median of the replays' shares;
	// 0 on others.
	Waiting    float64            `json:"waiting,omitempty"`
	Region     *RegionDescription `json:"region"`     // what was measured
	Dispatches []DispatchProfile  `json:"dispatches"` // one for each of the region, in the order in which they run
}

// DispatchProfile is one dispatch of a region, with its time.
type DispatchProfile struct {
	RegionDispatch
	Op *RegionOp `json:"-"` // the op that it belongs to, in RegionProfile.Region.Ops
	// Time is the median from its start to its end.
	Time time.Duration `json:"time_ns"`
	// Gap is the median from the end of the dispatch before, or the start of the
	// replay, to its start: the barrier, if there is one, and a timestamp.
	Gap time.Duration `json:"gap_ns"`
	// Work is the median of how long the workers of the CPU backend work on it, all
	// together; 0 on others.
	Work time.Duration `json:"work_ns,omitempty"`
}

// span is when something ran on the device, in nanoseconds of the device's
// clock converted to the host's; it matches kpx_span.
type span struct{ start, end uint64 }

func (s span) length() uint64 { return s.end - min(s.start, s.end) }

// replayTime is when a replay ran.
type replayTime struct {
	span
	// workers is how many worked on it, and work how long they did on each
	// dispatch, all together, in nanoseconds; both of the CPU backend only.
	workers int
	work    []uint64
}

// profiledTogether is how many pairs of replays are measured in a row: workers of the CPU backend
// then stay between them.
const profiledTogether = 8

// Profile replays the region 2·times times and measures the device's time: half of the replays as a
// whole, and half with a timestamp before and after each dispatch, which usually keeps dispatches
// from overlapping. It returns when they are done. These replays change the caller's tensors like
// any others.
//
// Times are by the device's clock, whose resolution may be as coarse as a
// microsecond. On the CPU backend times are wall-clock times, and Work and
// Waiting tell how well the workers share them. There, replays follow one another
// as those of ReplayN do.
//
// It uses a separate recording, made on the first call; normal replays do not
// change. Other calls that append to the stream wait meanwhile, for up to 16
// replays at a time.
//
// Profile stops when ctx ends; a replay that was submitted runs on.
//
// Errors are those of Replay; ErrInvalid for times below 1 or above 65,536; and,
// before anything has run, ErrUnsupported if the device does not support
// timestamps.
func (r *Region) Profile(ctx context.Context, times int) (*RegionProfile, error) {
	if times < 1 || times > mostReplays {
		return nil, fmt.Errorf("Region.Profile: %d times: %w", times, ErrInvalid)
	}
	region, err := r.Describe()
	if err != nil {
		return nil, err
	}
	n := len(region.Dispatches)
	m := newMeasurements(n, times)
	for i := 0; i < times; {
		runs := make([][]span, 2*min(times-i, profiledTogether))
		for k := 1; k < len(runs); k += 2 {
			runs[k] = make([]span, n)
		}
		all, err := r.profileRuns(ctx, runs)
		if err != nil {
			return nil, err
		}
		for k := 0; k < len(all); k, i = k+2, i+1 {
			m.add(i, all[k], all[k+1], runs[k+1])
		}
	}
	return m.medians(region), nil
}

// measurements are those of each replay, in nanoseconds; times of each dispatch are together.
type measurements struct {
	times, workers      int
	wholes, timed       []uint64
	waiting             []float64
	lengths, gaps, work []uint64
}

func newMeasurements(dispatches, times int) *measurements {
	n := dispatches * times
	return &measurements{
		times: times, wholes: make([]uint64, times), timed: make([]uint64, times), waiting: make([]float64, times),
		lengths: make([]uint64, n), gaps: make([]uint64, n), work: make([]uint64, n),
	}
}

// add adds the i-th pair: a replay as a whole, and one whose dispatches ran at spans.
func (m *measurements) add(i int, whole, timed replayTime, spans []span) {
	m.wholes[i], m.timed[i], m.workers = whole.length(), timed.length(), timed.workers
	last := timed.start
	for d, at := range spans {
		if at.end == 0 {
			continue // it had nothing to do this time
		}
		m.lengths[d*m.times+i] = at.length()
		m.gaps[d*m.times+i] = at.start - min(last, at.start)
		last = at.end
	}
	worked := uint64(0)
	for d, ns := range timed.work {
		m.work[d*m.times+i] = ns
		worked += ns
	}
	if total := uint64(m.workers) * m.timed[i]; total > 0 {
		m.waiting[i] = max(1-float64(worked)/float64(total), 0)
	}
}

// medians makes the profile of a region; it sorts what was measured.
func (m *measurements) medians(region *RegionDescription) *RegionProfile {
	slices.Sort(m.waiting)
	p := &RegionProfile{
		Times: m.times, Replay: medianTime(m.wholes), Timed: medianTime(m.timed),
		Workers: m.workers, Waiting: m.waiting[m.times/2], Region: region,
	}
	for k, d := range region.Dispatches {
		median := func(ns []uint64) time.Duration { return medianTime(ns[k*m.times : (k+1)*m.times]) }
		p.Dispatches = append(p.Dispatches, DispatchProfile{
			RegionDispatch: d, Op: &region.Ops[d.OpIndex],
			Time: median(m.lengths), Gap: median(m.gaps), Work: median(m.work),
		})
	}
	return p
}

// medianTime sorts nanoseconds and returns the middle one.
func medianTime(ns []uint64) time.Duration {
	slices.Sort(ns)
	return time.Duration(ns[len(ns)/2])
}

// traced replays the region n times, one by one, and adds each dispatch to the
// device's trace. s.mu is held.
func (r *Region) traced(ctx context.Context, n int) error {
	if r.traces == nil {
		described, err := r.Describe()
		if err != nil {
			return err
		}
		r.traces = described
	}
	spans := make([]span, len(r.traces.Dispatches))
	for range n {
		_, err := r.s.queue.profile(ctx, r, [][]span{spans})
		if errors.Is(err, ErrUnsupported) { // no timestamps: fails on the first replay
			for err = r.s.queue.replay(r, n); err == errBusy; err = r.s.queue.replay(r, n) {
				if err = r.s.queue.waitForRoom(ctx); err != nil {
					break
				}
			}
			return err
		}
		if err != nil {
			return err
		}
		for i, d := range r.traces.Dispatches {
			if spans[i].end == 0 {
				continue // it had nothing to do this time
			}
			r.s.onDevice(r.traces.Ops[d.OpIndex].Name, d.Kernel, spans[i])
		}
	}
	return nil
}

// profileRuns replays the region once for each of runs, and waits for it. It returns when they
// ran, and fills those of runs that are not nil.
func (r *Region) profileRuns(ctx context.Context, runs [][]span) ([]replayTime, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.s.lock(ctx); err != nil {
		return nil, err
	}
	defer r.s.mu.Unlock()
	if r.s.capture != nil {
		return nil, r.s.failCapture("profile", "a region inside a region", nil)
	}
	if err := r.usable(); err != nil {
		return nil, err
	}
	before, err := r.s.flushLocked(ctx) // what is measured waits for nothing else
	if err != nil {
		return nil, err
	}
	if err := before.wait(ctx); err != nil {
		return nil, err
	}
	all, err := r.s.queue.profile(ctx, r, runs)
	if err == nil {
		r.s.pendingOps, r.s.pendingBytes = 0, 0
	}
	return all, err
}
