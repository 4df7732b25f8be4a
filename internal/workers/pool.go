package workers

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Workers start on demand, and end when they have had nothing to do for idleTime,
// so the package leaves no goroutines behind. A worker that has just finished
// looks for work for a while before it sleeps, because waking a thread takes
// longer than many loops.
const (
	pollTime = 100 * time.Microsecond
	idleTime = 20 * time.Millisecond
)

var (
	board    [16]atomic.Pointer[job] // where callers post their jobs
	posted   atomic.Int32            // jobs on the board
	longJobs atomic.Int32            // schedules that can use several workers
	all      atomic.Int32            // workers
	polling  atomic.Int32            // how many look at the board
	sleeping atomic.Int32            // how many wait for wake
	wake     = make(chan struct{}, mostWorkers)
)

// post puts the job on the board. If that is full, the cores have enough to do. A schedule
// that cannot use another worker now may do so later.
func (j *job) post() *atomic.Pointer[job] {
	if j.wanted.Load() < 2 && !j.long {
		return nil
	}
	for i := range board {
		if board[i].Load() == nil && board[i].CompareAndSwap(nil, j) {
			posted.Add(1)
			return &board[i]
		}
	}
	return nil
}

func unpost(place *atomic.Pointer[job]) {
	if place == nil {
		return
	}
	place.Store(nil)
	posted.Add(-1)
}

// threadsFor returns how many workers, the caller included, the job can use:
// schedules share the processors, and leave some to other programs.
func threadsFor(j *job) int {
	n := threadsAlone(j)
	if others := int(longJobs.Load()); j.long && others > 1 {
		n = (n + others - 1) / others
	}
	return n
}

// threadsAlone is threadsFor if no other schedule runs.
func threadsAlone(j *job) int {
	n := runtime.GOMAXPROCS(0)
	if limit := int(crowd.limit.Load()); j.long && limit > 0 {
		n = min(n, limit)
	}
	return n
}

// tooMany reports whether the workers and one caller exceed the processors.
func tooMany() bool { return int(all.Load()) >= runtime.GOMAXPROCS(0) }

// callWorkers makes sure that that many workers look at the board. It wakes two,
// each of which wakes two more, so that the caller can soon begin its own work.
func callWorkers(want int) {
	want = min(want, runtime.GOMAXPROCS(0)-1)
	missing := min(want-int(polling.Load()), 2)
	for ; missing > 0 && sleeping.Load() > 0; missing-- {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for ; missing > 0; missing-- {
		n := all.Load()
		if int(n) >= want {
			return
		}
		if all.CompareAndSwap(n, n+1) {
			go worker()
		}
	}
}

// worker takes jobs until there have been none for idleTime.
func worker() {
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for {
		poll()
		if leave() {
			return
		}
		if !rest(timer) {
			all.Add(-1)
			if find(nil) == nil {
				return
			}
			all.Add(1) // the caller may have counted on this worker
		}
	}
}

// leave counts a worker as ended if there are too many.
func leave() bool {
	for {
		n := all.Load()
		if int(n) < runtime.GOMAXPROCS(0) {
			return false
		}
		if all.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// rest waits until a worker is called. It returns false if none is for idleTime.
func rest(timer *time.Timer) bool {
	sleeping.Add(1)
	defer sleeping.Add(-1)
	if find(nil) != nil {
		return true // its caller may have taken this worker for one that looks at the board
	}
	timer.Reset(idleTime)
	select {
	case <-wake:
		return true
	case <-timer.C:
		return false
	}
}

// poll works on posted jobs until there have been none for pollTime, or there are too many workers.
func poll() {
	polling.Add(1)
	defer polling.Add(-1)
	since := now()
	yielded := since
	for i := 1; ; i++ {
		if j := find(nil); j != nil {
			polling.Add(-1)
			j.join()
			polling.Add(1)
			if tooMany() {
				return
			}
			since = now()
		}
		if i%64 == 0 { // some microseconds
			at := now()
			if at-since > pollTime {
				return
			}
			yielded = yield(yielded, at)
		}
		pause()
	}
}

// join works on a job that find returned.
func (j *job) join() {
	for {
		me, ok := j.attach()
		if !ok {
			return
		}
		if missing := j.room(); missing > 0 {
			callWorkers(missing)
		}
		j.serve(me, member)
		j.detach(me)
		// A job that began while this worker was about to leave may have counted on it.
		if j.room() <= 0 || tooMany() {
			return
		}
	}
}

// room returns how many more workers the job can use, if a turn is under way.
func (j *job) room() int {
	room := int32(j.state.Load() & 0xffff)
	if j.long && room > 0 {
		room = j.wanted.Load()
	}
	return int(room - j.attached.Load())
}

// find returns a job that can use another worker and has turns left. Inside
// another job only loops are considered, because the helper must be back soon.
func find(inside *job) *job {
	if posted.Load() == 0 {
		return nil
	}
	for i := range board {
		j := board[i].Load()
		if j == nil || j == inside || inside != nil && j.long {
			continue
		}
		if j.room() > 0 {
			return j
		}
	}
	return nil
}

// help works on another job's loop, if there is one, for a worker that waits for the end of a turn of inside. It reports
// whether it did anything.
func help(inside *job, state uint64) bool {
	j := find(inside)
	if j == nil {
		return false
	}
	me, ok := j.attach()
	if !ok {
		return false
	}
	worked := j.assist(me, inside, state)
	j.detach(me)
	return worked
}
