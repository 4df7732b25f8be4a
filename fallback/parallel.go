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
)

var (
	board    [16]atomic.Pointer[job] // where callers post their jobs
	posted   atomic.Int32            // jobs on the board
	workers  atomic.Int32            // all of them
	polling  atomic.Int32            // those that look at the board
	sleeping atomic.Int32            // those that wait for wake
	wake     = make(chan struct{}, 1024)
)

// job is a loop over n units, cut into chunks that are handed out in order.
type job struct {
	run      func(lo, hi int)
	n, chunk int
	room     atomic.Int32 // workers that may still join
	next     atomic.Int64 // first unit that is not taken
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
	const worthwhile = 3000 // a chunk's least cost
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
	// Some chunks for each thread: more threads on a short job only disturb it.
	helpers := min(threads-1, max(parts/3, 1))
	j := &job{run: run, n: n, chunk: (n + parts - 1) / parts}
	j.room.Store(int32(helpers))
	j.left.Store(int64(n))
	j.finished.Add(1)
	place := j.post()
	if place != nil {
		callWorkers(helpers)
	}
	j.work()
	j.wait()
	if place != nil {
		place.Store(nil)
		posted.Add(-1)
	}
	if p := j.panicked.Load(); p != nil {
		panic(*p)
	}
}

// post puts the job on the board. If that is full, the cores have enough to do.
func (j *job) post() *atomic.Pointer[job] {
	for i := range board {
		if board[i].CompareAndSwap(nil, j) {
			posted.Add(1)
			return &board[i]
		}
	}
	return nil
}

// callWorkers sees to it that so many workers look at the board.
func callWorkers(want int) {
	missing := want - int(polling.Load())
	for range min(missing, int(sleeping.Load())) {
		select {
		case wake <- struct{}{}:
		default:
		}
		missing--
	}
	for ; missing > 0; missing-- {
		n := workers.Load()
		if int(n) >= want {
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
	defer workers.Add(-1)
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for {
		poll()
		sleeping.Add(1)
		timer.Reset(idleTime)
		select {
		case <-wake:
			sleeping.Add(-1)
		case <-timer.C:
			sleeping.Add(-1)
			return
		}
	}
}

// poll works on posted jobs until there have been none for pollTime.
func poll() {
	polling.Add(1)
	defer polling.Add(-1)
	start := time.Now()
	for i := 1; ; i++ {
		if j := findJob(); j != nil {
			polling.Add(-1)
			j.work()
			polling.Add(1)
			start = time.Now()
		}
		if i%64 == 0 {
			if time.Since(start) > pollTime {
				return
			}
			runtime.Gosched()
		}
	}
}

// findJob joins a job that has room and chunks that are not taken.
func findJob() *job {
	if posted.Load() == 0 {
		return nil
	}
	for i := range board {
		j := board[i].Load()
		if j != nil && int(j.next.Load()) < j.n && j.room.Load() > 0 && j.room.Add(-1) >= 0 {
			return j
		}
	}
	return nil
}
