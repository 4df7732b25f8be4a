package kompute

import (
	"context"
	"sync/atomic"
)

// cpuProfile measures one replay. Only the workers use it until the replay is
// done.
type cpuProfile struct {
	loops []cpuLoopTime // of the dispatches; nil: not measured
	whole replayTime
}

// cpuLoopTime is when a dispatch began and ended, and how long workers worked on
// it, all together.
type cpuLoopTime struct{ start, end, work atomic.Uint64 }

func (q *cpuQueue) profile(ctx context.Context, r *Region, spans []span) (replayTime, error) {
	d := q.s.dev
	p := &cpuProfile{}
	if spans != nil {
		p.loops = make([]cpuLoopTime, len(spans))
	}
	d.mu.Lock()
	err := q.enqueueRegion(cpuItem{region: r, times: 1, timed: p})
	value := q.s.appended
	d.mu.Unlock()
	if err != nil {
		return replayTime{}, err
	}
	if err := q.wait(ctx, value); err != nil {
		return replayTime{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range spans {
		t := &p.loops[i]
		spans[i] = span{t.start.Load(), t.end.Load()}
		p.whole.work = append(p.whole.work, t.work.Load())
	}
	return p.whole, q.s.err
}

// run runs the replay. dev.mu is not held.
func (p *cpuProfile) run(c *cpuRegion) error {
	if p.loops != nil {
		c.timed = p
	}
	p.whole.start = processClock()
	err := c.schedule.Run(1)
	p.whole.end = processClock()
	p.whole.workers = c.schedule.Threads()
	c.timed = nil
	return err
}

// note adds some work on a dispatch.
func (p *cpuProfile) note(dispatch int, start, end uint64) {
	t := &p.loops[dispatch]
	for known := t.start.Load(); (known == 0 || start < known) && !t.start.CompareAndSwap(known, start); {
		known = t.start.Load()
	}
	for known := t.end.Load(); end > known && !t.end.CompareAndSwap(known, end); {
		known = t.end.Load()
	}
	t.work.Add(end - start)
}
