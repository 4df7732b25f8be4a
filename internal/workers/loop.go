package workers

import (
	"runtime"
	"sync"
)

// loops are jobs of one step for For. Late workers may still look at one that is
// used again, which they may: see job.
var loops = sync.Pool{New: func() any {
	l := &loop{}
	l.job = newJob([][]part{{{Part: Part{Run: l.piece}}}}, 2*max(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	return l
}}

type loop struct {
	job *job
	run func(lo, hi int)
}

func (l *loop) piece(_ *Context, lo, hi int) error {
	l.run(lo, hi)
	return nil
}

// For calls run for ranges that together are [0, n), at once on several
// goroutines. cost is what one unit takes, in nanoseconds or so: small loops run
// in the calling goroutine. A panic of run goes on in the caller.
func For(n int, cost float64, run func(lo, hi int)) {
	if n <= 0 {
		return
	}
	total := float64(n) * cost
	threads := runtime.GOMAXPROCS(0)
	if n == 1 || threads == 1 || total < 2*worthwhile {
		run(0, n)
		return
	}
	l := loops.Get().(*loop)
	defer loops.Put(l)
	l.run = run
	p := &l.job.steps[0][0]
	p.Units, p.Cost = n, cost
	p.cut(max(worthwhile, total/float64(16*threads)))
	_ = l.job.run(1)
	l.run = nil
}
