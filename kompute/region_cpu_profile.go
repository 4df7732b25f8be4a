package kompute

import (
	"context"
)

// cpuProfile measures one replay. Only the worker uses it until the replay is
// done.
type cpuProfile struct {
	spans []span // of the ops; nil: not measured
	whole span
}

func (q *cpuQueue) profile(ctx context.Context, r *Region, spans []span) (span, error) {
	d := q.s.dev
	p := &cpuProfile{}
	if spans != nil {
		p.spans = make([]span, len(spans))
	}
	d.mu.Lock()
	err := q.enqueueRegion(cpuItem{region: r, times: 1, timed: p})
	value := q.s.appended
	d.mu.Unlock()
	if err != nil {
		return span{}, err
	}
	if err := q.wait(ctx, value); err != nil {
		return span{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(spans, p.spans)
	return p.whole, q.s.err
}

// run runs the replay. dev.mu is not held.
func (p *cpuProfile) run(q *cpuQueue, c *cpuRegion) error {
	p.whole.start = processClock()
	for i, op := range c.ops {
		if p.spans != nil {
			p.spans[i].start = processClock()
		}
		if err := op.CPU(c.arrays[i]); err != nil {
			return q.s.located(op, "", err)
		}
		if p.spans != nil {
			p.spans[i].end = processClock()
		}
	}
	p.whole.end = processClock()
	return nil
}
