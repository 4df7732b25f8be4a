package workers

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// job is a schedule that is being run, or a single loop. Its steps follow one
// another as turns, which are counted over all runs: turn t is step t modulo
// the number of steps.
//
// A late worker must not take part in a turn that is over, however late it is.
// Therefore every word that workers base decisions on contains the number of the
// turn: state with the number of shares, size with the number of pieces unless that is constant,
// and each share with the number of its pieces that are taken. What changes in a step is read only
// by workers that have taken a piece of it: the turn cannot end before they are done.
type job struct {
	steps  []step
	shares bool   // counted in longJobs; changed where a turn begins, and at the end
	long   bool   // a schedule: its workers stay, and those of other jobs do not join
	first  uint64 // the turn of the first step
	end    uint64 // the turn after the last
	begin  func(run int)
	slots  []slot
	failed atomic.Bool
	mu     sync.Mutex
	err    error

	// What begins a turn is in one line of the cache, since every worker loads it
	// then; other lines of the job rarely change.
	_        [64]byte
	state    atomic.Uint64 // turn<<16 | shares; no shares: nothing to do
	size     atomic.Uint64 // turn<<32 | pieces
	_        [64]byte
	groups   atomic.Int64 // finished groups of shares of the turn
	_        [64]byte
	wanted   atomic.Int32 // how many workers it can use
	attached atomic.Int32 // how many it has
	parked   atomic.Int32
	wake     chan struct{}
}

// slot is the place of one worker.
type slot struct {
	// done counts the finished pieces of the group of shares that begins here. A
	// single counter for all shares would be contended. The last worker of a group
	// resets it: the line is in its core's cache, and in no other's.
	done    atomic.Int64
	_       [56]byte
	taken   atomic.Uint64 // turn<<24 | pieces of its share that are taken
	used    atomic.Bool
	_       [55]byte // other workers load the line of taken
	context Context
	_       [64]byte
}

const (
	mostWorkers = 1 << 10
	groupSize   = 4 // shares that are counted together
	callerSlot  = 0 // which no other worker takes

	// What a worker takes at a time, see some.
	mostAtOnce = 8    // pieces or, if that is more, a share's divided by the number of workers
	aFewPieces = 64   // of a share
	smallPiece = 1000 // nanoseconds of a part's cost
)

func newJob(steps []step, slots int) *job {
	j := &job{steps: steps, slots: make([]slot, min(max(slots, 1), mostWorkers)), wake: make(chan struct{}, mostWorkers)}
	for i := range j.slots {
		j.slots[i].context.Worker = i
	}
	return j
}

// run runs the steps that many times. It returns when they are done. Before each
// time, a worker calls begin, unless it is nil.
func (j *job) run(times int, begin func(run int)) error {
	n := uint64(len(j.steps))
	j.first = (j.state.Load()>>16/n + 1) * n
	j.end, j.begin = j.first+uint64(times)*n, begin
	j.failed.Store(false)
	j.err = nil
	// Other workers see the job from here on. Late workers of earlier runs may have
	// looked at it earlier, and found nothing to do.
	j.slots[callerSlot].used.Store(true)
	j.attached.Add(1)
	j.open(j.first)
	place := j.post()
	if missing := j.room(); missing > 0 {
		callWorkers(missing)
	}
	j.serve(callerSlot, caller)
	j.detach(callerSlot)
	unpost(place)
	j.share(false)
	j.begin = nil
	return j.err
}

// attach takes a free slot for a worker other than the caller, if there is one. It
// does not wait: those in the slots may wait for what this worker is in the middle of,
// such as a piece of the same job whose nested loop looks for something to help with.
func (j *job) attach() (me int, ok bool) {
	for i := callerSlot + 1; i < len(j.slots); i++ {
		if s := &j.slots[i]; !s.used.Load() && s.used.CompareAndSwap(false, true) {
			j.attached.Add(1)
			return i, true
		}
	}
	return 0, false
}

func (j *job) detach(me int) {
	j.slots[me].used.Store(false)
	j.attached.Add(-1)
}

// open begins the first turn with work, from this one on, or ends the job.
func (j *job) open(turn uint64) {
	for ; turn < j.end && !j.failed.Load(); turn++ {
		if j.long && turn%16 == 0 {
			lookAtCrowd(runtime.GOMAXPROCS(0))
		}
		if turn%uint64(len(j.steps)) == 0 {
			j.adjust()
		}
		pieces, cost := j.measure(turn)
		if pieces == 0 {
			continue
		}
		shares := j.sharesOf(pieces, cost)
		if !j.stepOf(turn).constant { // a store less while all wait
			j.size.Store(turn<<32 | uint64(pieces))
		}
		j.state.Store(turn<<16 | uint64(shares))
		if shares > 1 {
			j.wakeParked()
		}
		return
	}
	j.state.Store(turn << 16)
	j.wakeParked()
}

// sharesOf returns how many workers divide pieces of that cost among them.
func (j *job) sharesOf(pieces int, cost float64) int {
	return min(int(j.wanted.Load()), max(int(cost/worthwhile), 1), pieces)
}

// stepOf returns the step of a turn.
func (j *job) stepOf(turn uint64) *step { return &j.steps[turn%uint64(len(j.steps))] }

// measure counts the pieces of a turn, and estimates its cost. It calls what the job's owner
// provided, so a panic there fails the job, as one of a piece does.
func (j *job) measure(turn uint64) (pieces int, cost float64) {
	s, n := j.stepOf(turn), uint64(len(j.steps))
	begins := turn%n == 0 && j.begin != nil
	if s.constant && !begins {
		return s.pieces, s.cost
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of mapped files that have shrunk
	defer func() {
		if p := recover(); p != nil {
			j.fail(panicError(p))
			pieces = 0
		}
	}()
	if begins {
		j.begin(int((turn - j.first) / n))
	}
	return s.measure()
}

// share records whether the job is one of those that share the processors.
func (j *job) share(shares bool) {
	if shares == j.shares {
		return
	}
	if j.shares = shares; shares {
		longJobs.Add(1)
	} else {
		longJobs.Add(-1)
	}
}

// adjust sets how many workers the job can use, once in each run of its steps.
func (j *job) adjust() {
	j.wanted.Store(int32(min(threadsFor(j), len(j.slots))))
	j.share(j.long && min(threadsAlone(j), len(j.slots)) > 1)
	if j.long && j.attached.Load() < j.wanted.Load() && j.attached.Load() > 0 {
		callWorkers(int(j.wanted.Load()) - 1)
	}
}

// fail keeps the first error.
func (j *job) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
	j.failed.Store(true)
}

// runPieces runs pieces [a, b) of a turn, which the worker has taken.
func (j *job) runPieces(c *Context, turn uint64, a, b int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of mapped files that have shrunk
	defer func() {
		if p := recover(); p != nil {
			j.fail(panicError(p))
		}
	}()
	c.turn = turn
	parts := j.stepOf(turn).parts
	for i := range parts {
		p := &parts[i]
		last := min(b, p.first+p.pieces)
		if a >= last || j.failed.Load() {
			continue
		}
		c.unclocked += p.Cost * float64((last-a)*p.length)
		if err := p.run(c, a, last); err != nil {
			j.fail(err)
		}
		a, c.follows = last, true
	}
}

// done counts finished pieces of a share. After the last ones, it opens the next turn.
func (j *job) done(t *turnOf, share, pieces int) {
	if pieces == 0 {
		return
	}
	first := share - share%groupSize
	lo, _ := t.share(first)
	_, hi := t.share(min(first+groupSize, t.shares) - 1)
	group := &j.slots[first]
	if group.done.Add(int64(pieces)) < int64(hi-lo) {
		return
	}
	group.done.Store(0)
	if j.groups.Add(1) == int64((t.shares+groupSize-1)/groupSize) {
		j.groups.Store(0)
		j.open(t.turn + 1)
	}
}

// take takes some of the remaining pieces of a share. The rest stays available to others, in case
// this worker turns out to be slow.
func (j *job) take(share int, t *turnOf) (a, b int) {
	s := &j.slots[share]
	lo, hi := t.share(share)
	const countBits = 24
	mark := t.turn << countBits
	for {
		word := s.taken.Load()
		at := lo
		if word>>countBits == mark>>countBits {
			at += int(word & (1<<countBits - 1))
		} else if int64(word-mark) > 0 {
			return 0, 0 // it is a later turn already
		}
		if at >= hi {
			return 0, 0
		}
		n := j.some(hi-at, hi-lo, t)
		if s.taken.CompareAndSwap(word, mark|uint64(at+n-lo)) {
			return at, at + n
		}
	}
}

// some returns how many of the remaining pieces of a share a worker takes at a time. Of a loop,
// whose pieces are large, that is a quarter. One or two workers of a schedule take a few small ones
// all at once: each time costs something, and what pieces of another worker's share read may only
// be in that worker's caches. Otherwise it is half, and not too many, since all workers wait
// for the last pieces.
func (j *job) some(rest, all int, t *turnOf) int {
	switch {
	case !j.long:
		return max(rest/4, 1)
	case t.shares <= 2 && all <= aFewPieces && j.stepOf(t.turn).small:
		return rest
	}
	return min((rest+1)/2, max(all/t.shares, mostAtOnce))
}
