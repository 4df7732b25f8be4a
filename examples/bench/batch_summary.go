package main

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// stepWatch notes how many steps an engine has run when every client has its first token, and when one has all.
type stepWatch struct {
	engine   *engine.Engine
	before   engine.Stats
	waiting  atomic.Int64 // clients without a token
	ended    sync.Once
	from, to []uint64 // steps of each device
}

func newStepWatch(e *engine.Engine, clients int) *stepWatch {
	w := &stepWatch{engine: e, before: e.Stats()}
	w.waiting.Store(int64(clients))
	return w
}

// note is called for each token of each client.
func (w *stepWatch) note(first, last bool) {
	if first && w.waiting.Add(-1) == 0 {
		w.from = w.engine.Stats().DeviceSteps
	}
	if last {
		w.ended.Do(func() { w.to = w.engine.Stats().DeviceSteps })
	}
}

// steps returns how many steps a device has run in between: the mean of those that have run any.
func (w *stepWatch) steps() float64 {
	var n, devices uint64
	for i := range min(len(w.from), len(w.to)) {
		if w.to[i] > w.from[i] {
			n += w.to[i] - w.from[i]
			devices++
		}
	}
	return float64(n) / float64(max(devices, 1))
}

// summarize computes the numbers of a run from the times of all tokens, and from how many steps a device ran while
// every client got some.
func summarize(start time.Time, times [][]time.Time, steps float64) *batch {
	out := &batch{Clients: len(times)}
	var first, next []float64
	from, to, end := start, times[0][len(times[0])-1], start
	total := 0
	for _, t := range times {
		total += len(t)
		last := t[len(t)-1]
		if t[0].After(from) {
			from = t[0]
		}
		if last.Before(to) {
			to = last
		}
		if last.After(end) {
			end = last
		}
		first = append(first, float64(t[0].Sub(start)))
		for i := 1; i < len(t); i++ {
			next = append(next, float64(t[i].Sub(t[i-1])))
		}
	}
	inside := 0
	for _, t := range times {
		for _, at := range t {
			if at.After(from) && !at.After(to) {
				inside++
			}
		}
	}
	if inside > 0 {
		out.Rate = float64(inside) / to.Sub(from).Seconds()
		out.Step = float64(to.Sub(from)) / max(steps, 1) // tokens come from a step, even if it had ended before it could be counted
	}
	out.Overall = float64(total) / end.Sub(start).Seconds()
	out.FirstP50, out.FirstP99 = percentile(first, 0.5), percentile(first, 0.99)
	out.NextP50, out.NextP99 = percentile(next, 0.5), percentile(next, 0.99)
	return out
}

// percentile returns the smallest element of x that at least the given share of x does not
// exceed.
func percentile(x []float64, part float64) float64 {
	slices.Sort(x)
	return x[max(int(math.Ceil(part*float64(len(x))))-1, 0)]
}

// medians returns the median of each number.
func medians(runs []*batch) *batch {
	out := *runs[0]
	of := func(field func(*batch) *float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, *field(r))
		}
		return median(all)
	}
	for _, field := range []func(*batch) *float64{
		func(r *batch) *float64 { return &r.Overall }, func(r *batch) *float64 { return &r.Host },
		func(r *batch) *float64 { return &r.FirstP50 }, func(r *batch) *float64 { return &r.FirstP99 },
		func(r *batch) *float64 { return &r.NextP50 }, func(r *batch) *float64 { return &r.NextP99 },
		func(r *batch) *float64 { return &r.Drafted }, func(r *batch) *float64 { return &r.Accepted },
	} {
		*field(&out) = of(field)
	}
	var rates, steps []float64
	for _, r := range runs {
		if r.Rate > 0 {
			rates, steps = append(rates, r.Rate), append(steps, r.Step)
		}
	}
	if len(rates) > 0 {
		out.Low, out.Rate, out.High = slices.Min(rates), median(rates), slices.Max(rates)
		out.Step = median(steps)
	}
	return &out
}
