package kompute

import (
	"context"
	"time"
)

// cpuProfile measures one replay. It is the worker's until the replay is done.
type cpuProfile struct {
	spans []span // of the ops, if that is wanted
	whole uint64
}

func (q *cpuQueue) profile(ctx context.Context, r *Region, spans []span) (uint64, error) {
	d := q.s.dev
	p := &cpuProfile{}
	if spans != nil {
		p.spans = make([]span, len(spans))
	}
	d.mu.Lock()
	err := q.enqueueRegion(cpuItem{region: r, times: 1, timed: p})
	ticket := q.s.appended
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := q.wait(ctx, ticket); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(spans, p.spans)
	return p.whole, q.s.err
}

// run does the replay. dev.mu is not held.
func (p *cpuProfile) run(q *cpuQueue, c *cpuRegion) error {
	start := time.Now()
	for i, op := range c.ops {
		if p.spans != nil {
			p.spans[i].start = uint64(time.Since(start))
		}
		if err := op.CPU(c.arrays[i]); err != nil {
			return q.s.located(op, "", err)
		}
		if p.spans != nil {
			p.spans[i].end = uint64(time.Since(start))
		}
	}
	p.whole = uint64(time.Since(start))
	return nil
}
