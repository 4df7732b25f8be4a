package workers

import (
	"sync"
	"sync/atomic"
	"time"
)

// A thread that the system has taken off its core in the middle of a piece holds up all
// others, in every step. Where other programs want the processors, too, that happens
// every few milliseconds, and then fewer workers are faster: two threads beside two
// others that are always busy do half of what one does. So the workers of schedules
// measure how long they wait for each other, and their number follows.
const (
	crowdWindow = 20 * time.Millisecond
	// lateTime is longer than pieces of a decode step take, so such waits are counted.
	lateTime = 100 * time.Microsecond
	// If workers spend this share of their time in such waits, there is one worker less,
	// or from 16 on an eighth less. Interruptions of about sliceTime each must account for
	// the waits, since workers also wait for the last of a few long pieces.
	crowdedShare = 0.2
	sliceTime    = 4 * time.Millisecond
	// A larger number is tried again after leastPause. If that does not go well for
	// goodTime, the next pause is twice as long, up to mostPause.
	leastPause = 100 * time.Millisecond
	goodTime   = time.Second
	mostPause  = 2 * time.Second
)

// observation is what was measured in a window.
type observation struct {
	at, elapsed time.Duration
	waited      time.Duration // of all workers, in long waits
	workers     int
	switches    int64 // involuntary ones
}

func (o *observation) crowded() bool {
	if o.workers < 2 || float64(o.waited) < crowdedShare*float64(o.elapsed)*float64(o.workers) {
		return false
	}
	return o.waited/time.Duration(o.workers-1) <= time.Duration(o.switches)*sliceTime
}

// crowdLimit is how many workers all schedules together may have, and when they may have
// more.
type crowdLimit struct {
	workers int // 0: as many as there are processors
	raise   time.Duration
	raised  time.Duration // when it was last raised; 0: not since it was lowered
	pause   time.Duration
}

// next returns the limit after an observation, on that many processors.
func (l crowdLimit) next(o *observation, processors int) crowdLimit {
	switch {
	case o.crowded():
		switch {
		case l.raised == 0: // it has not been raised since it was lowered
			l.pause = max(l.pause, leastPause)
		case o.at-l.raised < goodTime:
			l.pause = min(2*l.pause, mostPause)
		default:
			l.pause = leastPause
		}
		l.raised = 0
		l.workers = max(o.workers-max(o.workers/8, 1), 1)
		l.raise = o.at + l.pause
	case l.workers > 0 && o.at >= l.raise:
		l.workers += max(l.workers/8, 1)
		l.raised, l.raise = o.at, o.at+leastPause
		if l.workers >= processors {
			l.workers = 0
		}
	}
	return l
}

// crowd is the state of all schedules, since they share the processors.
var crowd struct {
	limit  atomic.Int32 // that of now; 0: none
	waited atomic.Int64 // in nanoseconds, since the window began

	mu       sync.Mutex
	now      crowdLimit
	began    time.Duration // the window
	switches int64         // at that time
}

// waitedSince counts a worker's wait for others.
func waitedSince(since time.Duration) {
	if wait := now() - since; wait > lateTime {
		crowd.waited.Add(int64(wait))
	}
}

// lookAtCrowd ends the window if it is old enough, and sets the limit. It is called often
// while a schedule runs.
func lookAtCrowd(processors int) {
	if !crowd.mu.TryLock() {
		return
	}
	defer crowd.mu.Unlock()
	at := now()
	elapsed := at - crowd.began
	if elapsed < crowdWindow {
		return
	}
	workers := processors
	if limit := crowd.now.workers; limit > 0 {
		workers = min(workers, limit)
	}
	switches := involuntarySwitches()
	o := observation{at, elapsed, time.Duration(crowd.waited.Swap(0)), workers, switches - crowd.switches}
	crowd.began, crowd.switches = at, switches
	if elapsed > 4*crowdWindow { // for a part of it, nothing ran: it says nothing about waits
		o.waited = 0
	}
	crowd.now = crowd.now.next(&o, processors)
	crowd.limit.Store(int32(crowd.now.workers))
}
