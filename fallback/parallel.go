package fallback

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The worker pool. A decode token is a hundred small ops, so what counts is how
// soon a worker sees new work: one that has just finished polls for a while
// before it sleeps, because waking a sleeping thread takes longer than many ops.
// Workers start on demand and end when they have had nothing to do for idleTime,
// so the package leaves no goroutines behind.
//
// Nothing ever waits for a worker to come: the caller itself works until no
// chunk is left, and then waits only for chunks that a worker has begun.
const (
	pollTime = 50 * time.Microsecond
	idleTime = 20 * time.Millisecond
	maxQueue = 256
)

var (
	queue   = make(chan *job, maxQueue)
	workers atomic.Int32
)

// job is a loop over n units, cut into chunks that are handed out in order.
type job struct {
	run      func(lo, hi int)
	n, chunk int
	next     atomic.Int64 // first unit that nobody has taken
	left     atomic.Int64 // units not finished
	finished sync.WaitGroup
	panicked atomic.Pointer[any]
}

// parallel calls run for ranges that together are [0, n), at once on several
// goroutines. cost is what one unit takes, in nanoseconds or so: small loops run
// in the calling goroutine.
func parallel(n int, cost float64, run func(lo, hi int)) {
	if n <= 0 {
		return
	}
	const worthwhile = 6000 // a chunk's least cost
	total := float64(n) * cost
	if n == 1 || total < 2*worthwhile {
		run(0, n)
		return
	}
	threads := runtime.GOMAXPROCS(0)
	parts := min(n, int(min(total/worthwhile, float64(4*threads))))
	if threads == 1 || parts < 2 {
		run(0, n)
		return
	}
	j := &job{run: run, n: n, chunk: (n + parts - 1) / parts}
	j.left.Store(int64(n))
	j.finished.Add(1)
	j.offer(min(threads, parts) - 1)
	j.work()
	j.wait()
	if p := j.panicked.Load(); p != nil {
		panic(*p)
	}
}

// offer asks for helpers, and starts workers where there are fewer.
func (j *job) offer(helpers int) {
	for range helpers {
		select {
		case queue <- j:
		default: // so much is queued that all workers are busy
			return
		}
	}
	for {
		n := workers.Load()
		if int(n) >= helpers {
			return
		}
		if workers.CompareAndSwap(n, n+1) {
			go worker()
		}
	}
}

// work runs chunks until none is left.
func (j *job) work() {
	for {
		lo := int(j.next.Add(int64(j.chunk))) - j.chunk
		if lo >= j.n {
			return
		}
		j.runChunk(lo, min(lo+j.chunk, j.n))
	}
}

func (j *job) runChunk(lo, hi int) {
	defer func() {
		if p := recover(); p != nil {
			j.panicked.CompareAndSwap(nil, &p)
		}
		if j.left.Add(int64(lo-hi)) == 0 {
			j.finished.Done()
		}
	}()
	j.run(lo, hi)
}

// wait returns when every chunk is finished. Chunks take about as long as each
// other, so it polls before it sleeps.
func (j *job) wait() {
	start := time.Now()
	for i := 1; j.left.Load() > 0; i++ {
		if i%64 == 0 {
			if time.Since(start) > pollTime {
				break
			}
			runtime.Gosched()
		}
	}
	j.finished.Wait()
}

// worker takes jobs until there have been none for idleTime.
func worker() {
	for {
		j := nextJob()
		if j == nil {
			workers.Add(-1)
			return
		}
		j.work()
	}
}

// nextJob polls, then sleeps, and gives up after idleTime.
func nextJob() *job {
	start := time.Now()
	for i := 1; ; i++ {
		select {
		case j := <-queue:
			return j
		default:
		}
		if i%64 == 0 {
			if time.Since(start) > pollTime {
				break
			}
			runtime.Gosched()
		}
	}
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	select {
	case j := <-queue:
		return j
	case <-timer.C:
		return nil
	}
}
