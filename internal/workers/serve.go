package workers

import (
	"runtime"
	"time"
)

const (
	// A worker that waits looks for other jobs' loops after it has looked for the next step patience
	// times, which take about a microsecond, and then after twice as many each time.
	patience = 24
	// politeTime is how long a worker runs or waits, at least, before it yields to
	// other goroutines once.
	politeTime = 2 * time.Millisecond
	// A worker looks at the clock after this much work, in nanoseconds of a part's cost: a look in
	// each turn would make short ones half as long again. A turn counts as turnCost.
	unclockedCost = 100e3
	turnCost      = 3e3
	// spinTime is how long a waiting worker polls before it yields, again and again.
	// After parkTime it parks. Waking it takes tens of microseconds, and more where
	// the machine's processors are virtual.
	spinTime = 20 * time.Microsecond
	parkTime = 300 * time.Microsecond
)

// role is how a worker takes part in a job.
type role int

const (
	caller role = iota // it runs the job, and serves to the end
	member             // it stays for further steps, until there have been none for pollTime
)

// turnOf is what a worker knows of the current turn.
type turnOf struct {
	state        uint64
	turn         uint64
	shares, size int
}

// look returns the current turn; ok is false if there is none.
func (j *job) look() (t turnOf, ok bool) {
	for {
		t.state = j.state.Load()
		t.turn, t.shares = t.state>>16, int(t.state&0xffff)
		if t.shares == 0 {
			return t, false
		}
		if s := j.stepOf(t.turn); s.constant {
			t.size = s.pieces
			return t, true
		}
		if size := j.size.Load(); uint32(size>>32) == uint32(t.turn) {
			t.size = int(uint32(size))
			return t, true
		}
	}
}

// share returns the pieces of a share.
func (t *turnOf) share(i int) (lo, hi int) {
	return i * t.size / t.shares, (i + 1) * t.size / t.shares
}

// serve works on the job until it ends. A worker that is not the caller leaves
// earlier if there are too many.
func (j *job) serve(me int, as role) {
	polite, c := now(), &j.slots[me].context
	for {
		t, ok := j.look()
		if !ok {
			if as != member || j.long || !j.linger(t.state) {
				return
			}
			continue
		}
		if me < t.shares {
			j.done(&t, me, j.work(me, &t, me))
		}
		if c.unclocked += turnCost; c.unclocked > unclockedCost {
			c.unclocked = 0
			if at := now(); at-polite > politeTime {
				runtime.Gosched()
				polite = at
				if as != caller && j.crowded(me) {
					j.wakeParked() // for the turn that this worker may just have opened
					return
				}
			}
		}
		if !j.await(me, &t, as) {
			j.wakeParked()
			return
		}
	}
}

// assist takes part in the current turn for a worker that waits in another job, until waiting is no longer in that
// state. It reports whether there was anything to do.
func (j *job) assist(me int, waiting *job, state uint64) (worked bool) {
	t, ok := j.look()
	if !ok {
		return false
	}
	for waiting.state.Load() == state && j.takeFrom(me, me, &t) {
		worked = true
	}
	return worked
}

// linger waits for the next run of a finished loop. It returns false if none
// comes for a while, or if there is other work.
func (j *job) linger(state uint64) bool {
	since := now()
	yielded := since
	for i := 1; j.state.Load() == state; i++ {
		if other := find(nil); other != nil && other != j {
			return false
		}
		if i%64 == 0 { // some microseconds
			at := now()
			if at-since > pollTime || tooMany() {
				return false
			}
			yielded = yield(yielded, at)
		}
		pause()
	}
	return true
}

// yield lets other goroutines run if the last time was spinTime ago. It returns the last time.
func yield(last, at time.Duration) time.Duration {
	if at-last <= spinTime {
		return last
	}
	runtime.Gosched()
	return now()
}

// crowded reports whether the worker should leave.
func (j *job) crowded(me int) bool {
	return tooMany() || j.long && me >= threadsFor(j)
}

// work does the rest of a share, and returns how many pieces that was.
func (j *job) work(me int, t *turnOf, share int) (pieces int) {
	for {
		a, b := j.take(share, t)
		if a == b {
			return pieces
		}
		c := &j.slots[me].context
		c.follows = pieces > 0
		j.runPieces(c, t.turn, a, b)
		pieces += b - a
	}
}

// steal does a part of the share of another worker, and reports whether there was any.
func (j *job) steal(me int, t *turnOf) bool { return j.takeFrom(me+1, me, t) }

// takeFrom does a part of the first share that still has any, from share first on, and reports whether there was one.
func (j *job) takeFrom(first, me int, t *turnOf) bool {
	for k := 0; k < t.shares && j.state.Load() == t.state; k++ {
		i := (first + k) % t.shares
		if a, b := j.take(i, t); a != b {
			c := &j.slots[me].context
			c.follows = false
			j.runPieces(c, t.turn, a, b)
			j.done(t, i, b-a)
			return true
		}
	}
	return false
}

// await returns true when the turn is over, and false if the worker must leave. First it takes pieces
// that others have not begun, until there are none: no more will come in this turn.
func (j *job) await(me int, t *turnOf, as role) bool {
	for j.steal(me, t) {
	}
	j.prefetch(me, t)
	var first, since, yielded time.Duration
	look := patience
	for i := 1; j.state.Load() == t.state; i++ {
		if i == look {
			look *= 2 // looking slows the working threads down
			if help(j, t.state) {
				i, look, first, since = 0, patience, 0, 0
				continue
			}
		}
		if i%100 == 0 { // several microseconds
			at := now()
			switch {
			case since == 0:
				since, yielded = at, at
				if first == 0 {
					first = at
				}
			case at-since > parkTime:
				if as != caller && j.crowded(me) {
					return false
				}
				j.park(t)
				since = 0
			default:
				yielded = yield(yielded, at)
			}
		}
		pause()
	}
	if first != 0 && j.long && me < t.shares { // others wait by design
		waitedSince(first)
	}
	return true
}

// prefetch asks for what the worker will probably read first in the next step or, if that has no
// Prefetch, in the one after it. It looks only at what never changes in a schedule.
func (j *job) prefetch(me int, t *turnOf) {
	if !j.long || j.state.Load() != t.state {
		return
	}
	for turn := t.turn + 1; turn <= t.turn+2; turn++ {
		p := &j.stepOf(turn).parts[0]
		if p.Prefetch == nil {
			continue
		}
		pieces := (p.Units + p.length - 1) / p.length
		if shares := j.sharesOf(pieces, p.Cost*float64(p.Units)); me < shares {
			p.Prefetch(me*pieces/shares*p.length, min((me+1)*pieces/shares*p.length, p.Units))
		}
		return
	}
}

// park sleeps until a turn for several workers begins, or the job ends.
func (j *job) park(t *turnOf) {
	j.parked.Add(1)
	if j.state.Load() != t.state && j.unpark() {
		return
	}
	<-j.wake
	j.wakeParked()
}

// unpark removes one worker from the count of those parked.
func (j *job) unpark() bool {
	for {
		n := j.parked.Load()
		if n == 0 {
			return false
		}
		if j.parked.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// wakeParked wakes all parked workers: it wakes two, each of which wakes two more,
// so that the worker that opens a turn can soon begin its own work.
func (j *job) wakeParked() {
	for range 2 {
		if !j.unpark() {
			return
		}
		j.wake <- struct{}{}
	}
}
