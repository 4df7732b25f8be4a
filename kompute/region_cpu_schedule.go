package kompute

import (
	"slices"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// tinyCost is the cost of a level, in nanoseconds or so, up to which it is not
// worth a meeting of the workers: one of them does it together with its
// neighbours.
const tinyCost = 3000

// prepare makes the schedule of the region. dev.mu is not held.
func (c *cpuRegion) prepare(s *Stream) error {
	var levels []workers.Step
	next := 0
	for i := range c.calls {
		parts, err := c.partsOf(s, i)
		if err != nil {
			return err
		}
		for stage, p := range parts {
			p.Run = c.measured(s, next, p.Run)
			next++
			level := c.calls[i].level + stage
			for len(levels) <= level {
				levels = append(levels, nil)
			}
			levels[level] = append(levels[level], p)
		}
	}
	c.schedule = workers.NewSchedule(mergeTiny(levels))
	return nil
}

// partsOf returns the loops of a call. Making them looks at the operands' shapes, and a
// panic on shapes that do not fit becomes the replay's error.
func (c *cpuRegion) partsOf(s *Stream, i int) (parts []workers.Part, err error) {
	call := &c.calls[i]
	defer s.recovered(&Op{Name: call.Name}, &err)
	arrays := make([]array.Array, len(call.Arrays))
	bytes := 0
	for k, a := range call.Arrays {
		if st := call.operands[k]; st != nil {
			arrays[k] = array.Array{DType: a.DType, Layout: a.Layout, Data: st.memory()}
			bytes += a.Size() * a.DType.Size()
		}
	}
	if call.stages == nil {
		op := c.ops[call.Call]
		params, own := op.Params, slices.Clone(arrays)
		op.Params = slices.Clone(params)
		return []workers.Part{{Units: 1, Cost: 500 + float64(bytes)/16, Run: func(*workers.Context, int, int) error {
			copy(own, arrays) // the function may change both
			copy(op.Params, params)
			return s.runOnHost(op, own)
		}}}, nil
	}
	var scratch []float32
	if call.scratch >= 0 {
		t := c.memory[call.scratch]
		scratch = unsafe.Slice((*float32)(unsafe.Pointer(&c.arena.memory[t.offset])), call.stages.Scratch)
	}
	if parts, err = call.stages.Make(arrays, scratch); err != nil {
		return nil, s.located(Op{Name: call.Name}, "", err)
	}
	return parts, nil
}

// measured runs a loop of a dispatch, and measures it if that is wanted. A panic
// becomes the replay's error.
func (c *cpuRegion) measured(s *Stream, dispatch int, run func(*workers.Context, int, int) error) func(*workers.Context, int, int) error {
	op := &Op{Name: c.dispatches[dispatch].kernel}
	return func(w *workers.Context, lo, hi int) (err error) {
		defer s.recovered(op, &err)
		p := c.timed
		if p == nil {
			return run(w, lo, hi)
		}
		start := p.start(w)
		err = run(w, lo, hi)
		p.note(w.Worker, dispatch, start)
		return err
	}
}

// mergeTiny makes one part of neighbouring levels with little work.
func mergeTiny(levels []workers.Step) []workers.Step {
	var out []workers.Step
	for len(levels) > 0 {
		n := 0
		for n < len(levels) && costOf(levels[n]) <= tinyCost {
			n++
		}
		if n < 2 {
			out, levels = append(out, levels[0]), levels[1:]
			continue
		}
		var list []workers.Part
		for _, level := range levels[:n] {
			list = append(list, level...)
		}
		out, levels = append(out, workers.Step{oneAfterAnother(list)}), levels[n:]
	}
	return out
}

func costOf(step workers.Step) (cost float64) {
	for _, p := range step {
		cost += p.Cost * float64(p.Units)
	}
	return cost
}

// oneAfterAnother is a part that runs all of these parts.
func oneAfterAnother(list []workers.Part) workers.Part {
	return workers.Part{Units: 1, Cost: costOf(list), Run: func(w *workers.Context, _, _ int) error {
		for i := range list {
			p := &list[i]
			units := p.Units
			if p.Size != nil {
				units = p.Size()
			}
			w.Forget()
			if err := p.Run(w, 0, units); err != nil {
				return err
			}
		}
		return nil
	}}
}
