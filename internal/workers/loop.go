package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// loop is a job of one step, for For. It is reused; see job for why late workers
// do no harm.
type loop struct {
	job *job
	run func(lo, hi int)
}

func newLoop() *loop {
	l := &loop{}
	l.job = newJob([]step{{parts: []part{{Part: Part{Run: l.piece}}}}}, 2*max(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	return l
}

// Loops that follow one another, such as those of a stream's ops, use mainLoop, in
// which workers wait for the next one. Loops that run at the same time, or inside
// a piece, take another one.
var (
	mainLoop   = newLoop()
	mainInUse  atomic.Bool
	otherLoops = sync.Pool{New: func() any { return newLoop() }}
)

// takeLoop returns a loop that nothing else uses; return it with give.
func takeLoop() *loop {
	if !mainInUse.Load() && mainInUse.CompareAndSwap(false, true) {
		return mainLoop
	}
	return otherLoops.Get().(*loop)
}

func (l *loop) give() {
	l.run = nil
	if l == mainLoop {
		mainInUse.Store(false)
		return
	}
	otherLoops.Put(l)
}

func (l *loop) piece(_ *Context, lo, hi int) error {
	l.run(lo, hi)
	return nil
}

// For calls run for ranges that together are [0, n), concurrently on several
// goroutines. cost is the approximate time of one unit in nanoseconds: small
// loops run in the calling goroutine. A panic of run in another goroutine
// continues in the caller, as a PanicError.
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
	l := takeLoop()
	defer l.give()
	l.run = run
	p := &l.job.steps[0].parts[0]
	p.Units, p.Cost = n, cost
	p.cut(max(worthwhile, total/float64(16*threads)))
	if err := l.job.run(1, nil); err != nil {
		panic(err) // only a panic of run causes one
	}
}
