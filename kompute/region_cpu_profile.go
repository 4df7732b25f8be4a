package kompute

import (
	"context"

	"github.com/kompute-go/kompute-go/internal/workers"
)

// cpuProfile measures replays that follow one another. Only the workers use it
// until the replays are done.
type cpuProfile struct {
	runs  [][]span     // one for each replay: of its dispatches, or nil if they are not measured
	times []replayTime // of the replays that have begun
	rows  []cpuWorkerTimes
}

// cpuWorkerTimes are the times of a worker.
type cpuWorkerTimes struct {
	last  uint64 // when it last ended work
	loops []cpuLoopTime
	_     [64]byte // the next worker's are in another line of the cache
}

// cpuLoopTime is when a worker began and ended its work on a dispatch, and how long
// it worked on it.
type cpuLoopTime struct{ start, end, work uint64 }

func (q *cpuQueue) profile(ctx context.Context, r *Region, runs [][]span) ([]replayTime, error) {
	d := q.s.dev
	p := &cpuProfile{runs: runs}
	d.mu.Lock()
	err := q.enqueueRegion(cpuItem{region: r, times: len(runs), timed: p})
	value := q.s.appended
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := q.wait(ctx, value); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.times, q.s.err
}

// run runs the replays. dev.mu is not held.
func (p *cpuProfile) run(c *cpuRegion) error {
	p.rows = make([]cpuWorkerTimes, c.schedule.MostWorkers())
	for i := range p.rows {
		p.rows[i].loops = make([]cpuLoopTime, len(c.dispatches))
	}
	threads := c.schedule.Threads()
	err := c.schedule.RunWatched(len(p.runs), func(run int) {
		now := processClock()
		p.finish(now)
		p.times = append(p.times, replayTime{span: span{start: now}, workers: threads})
		c.timed = nil
		if p.runs[run] != nil {
			c.timed = p
		}
	})
	c.timed = nil
	now := processClock()
	p.finish(now)
	for len(p.times) < len(p.runs) { // of a region without work
		p.times = append(p.times, replayTime{span: span{now, now}, workers: threads})
	}
	return err
}

// finish ends the replay that has begun, if there is one.
func (p *cpuProfile) finish(now uint64) {
	if len(p.times) == 0 {
		return
	}
	t, spans := &p.times[len(p.times)-1], p.runs[len(p.times)-1]
	t.end = now
	if spans == nil {
		return
	}
	t.work = make([]uint64, len(spans))
	clear(spans) // the caller may use them again
	for _, row := range p.rows {
		for i, one := range row.loops {
			if one.end == 0 {
				continue
			}
			s := &spans[i]
			if s.end == 0 || one.start < s.start {
				s.start = one.start
			}
			s.end = max(s.end, one.end)
			t.work[i] += one.work
		}
		clear(row.loops)
	}
}

// start returns when work on a dispatch begins: now or, as taking a worker's own next
// units is a part of the work, when the units before were done.
func (p *cpuProfile) start(w *workers.Context) uint64 {
	if last := p.rows[w.Worker].last; w.Follows() && last != 0 {
		return last
	}
	return processClock()
}

// note adds some work of a worker on a dispatch, which ends now.
func (p *cpuProfile) note(worker, dispatch int, start uint64) {
	w := &p.rows[worker]
	t := &w.loops[dispatch]
	if t.end == 0 {
		t.start = start
	}
	w.last = processClock()
	t.end = w.last
	t.work += t.end - start
}
