package kompute

import (
	"maps"
	"time"
	"weak"

	"github.com/kompute-go/kompute-go/internal/array"
)

// cpuQueue runs a stream's ops on the host. Submitted work is run by a
// goroutine that exists only while there is work.
type cpuQueue struct {
	s *Stream

	// Guarded by s.dev.mu.
	items   []cpuItem // from first on: not done yet
	first   int
	running bool
	waiters []cpuWaiter
	submits uint64
	ends    []uint64 // where the submissions that are not done end
	held    bool     // the oldest item waits for another stream
	// replayed counts ops that regions ran.
	replayed uint64
	barriers uint64 // between these ops
	timing   timing
	opTimes  map[string]OpTime
	arena    weak.Pointer[cpuArena] // that regions share

	arrays  []array.Array // the worker's, reused
	batch   []cpuItem     // the items that it runs, reused
	working func()        // work, made once: the go statement then allocates nothing
}

// cpuItem is an op with the work of other streams that it must wait for;
// without an op it only waits.
type cpuItem struct {
	op     Op
	region *Region // instead of op; replayed this many times
	times  int
	timed  *cpuProfile // of the replay, if it is wanted
	moved  uint64      // cpuUploads.moved when it was enqueued
	read   *cpuRead    // instead of op
	deps   []cpuDependency
	timing timing // of op
}

func (q *cpuQueue) append(op Op) error {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if op.CPU == nil {
		op.unpin()
		return opError(&op, "no CPU implementation was given", ErrUnsupported)
	}
	if q.s.capture != nil {
		return q.appendCaptured(op)
	}
	op = op.kept()
	for op.busy() {
		d.cond.Wait()
	}
	for _, a := range op.Args { // one may have failed since it was admitted
		if a.View != nil && !a.overwrites() {
			if err := a.View.st.contentErr(); err != nil {
				op.unpin()
				return err
			}
		}
	}
	item := cpuItem{op: op}
	for _, a := range op.Args {
		if a.View != nil {
			item.deps = a.View.st.cpu.conflicts(q.s, a.needs(), item.deps)
		}
	}
	q.push(item)
	op.used(mark{q.s, q.s.appended})
	op.made(q.s)
	return nil
}

// used records that the work at m uses the operands. dev.mu is held.
func (op Op) used(m mark) {
	for _, a := range op.Args {
		if a.View != nil {
			a.View.st.cpu.used(a.Access, m)
		}
	}
}

// push appends an item and starts the work that it depends on. dev.mu is held.
func (q *cpuQueue) push(item cpuItem) {
	if q.first > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	if item.op.CPU != nil {
		item.timing = q.timing
	}
	q.items = append(q.items, item)
	q.s.appended++
	for _, m := range item.deps {
		if m.stream.dev == q.s.dev { // events of other devices were started when they were recorded
			m.stream.queue.(*cpuQueue).startForOther(m.value)
		}
	}
}

// hold implements queue. The worker waits, even for another device.
func (q *cpuQueue) hold(m mark) error {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.push(cpuItem{deps: []cpuDependency{{mark: m}}})
	return nil
}

func (q *cpuQueue) flush() (uint64, error) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	more := 0
	if q.s.appended > q.s.submitted {
		more = 1
	}
	if q.excess(more) > 0 {
		return 0, errBusy
	}
	q.start(q.s.appended)
	return q.s.appended, nil
}

// abandon implements queue: items that were not submitted are skipped in their order, for others may wait for them.
func (q *cpuQueue) abandon() uint64 {
	q.start(q.s.appended)
	return q.s.appended
}

// start lets the items up to value run. dev.mu is held.
func (q *cpuQueue) start(value uint64) {
	if value <= q.s.submitted {
		return
	}
	q.s.submitted = min(value, q.s.appended)
	q.submits++
	q.submitted(q.s.submitted)
	if !q.running {
		q.running = true
		go q.working()
	}
}

// startForOther is start for another stream's work. The window goes on: the stream's own callers
// must still come to where they wait for room. dev.mu is held.
func (q *cpuQueue) startForOther(value uint64) {
	same := q.s.windowed == q.s.submitted
	q.start(value)
	if same {
		q.s.windowed = q.s.submitted
	}
}

// work runs submitted items until there are none.
func (q *cpuQueue) work() {
	d := q.s.dev
	d.mu.Lock()
	for q.s.done < q.s.submitted {
		batch := q.take()
		if q.s.err == nil {
			d.mu.Unlock()
			at, err := q.timed(batch)
			d.mu.Lock()
			for i := range batch {
				if batch[i].timing != timeNothing {
					q.addTime(batch[i], at)
					at.start = at.end // the first has the time of all
				}
			}
			if err != nil {
				q.s.poisoned(err)
			}
		} else {
			q.skip(batch)
		}
		for i := range batch {
			q.finish(batch[i])
		}
		clear(batch)
		q.dropEnds()
		q.wake()
	}
	q.running = false
	d.mu.Unlock()
}

// skip waits for what the items of a failed stream depend on: later work on the same storages waits only for them.
// dev.mu is held, but not meanwhile.
func (q *cpuQueue) skip(batch []cpuItem) {
	q.s.dev.mu.Unlock()
	defer q.s.dev.mu.Lock()
	for i := range batch {
		_, _ = q.await(&batch[i])
	}
}

// timed runs a batch and, if requested, records when. dev.mu is not held.
func (q *cpuQueue) timed(batch []cpuItem) (at span, err error) {
	if batch[0].timing == timeNothing {
		return at, q.runBatch(batch)
	}
	at.start = processClock()
	err = q.runBatch(batch)
	at.end = processClock()
	return at, err
}

// run runs one item. dev.mu is not held.
func (q *cpuQueue) run(item cpuItem) error {
	unmade, err := q.await(&item)
	if err != nil {
		return err
	}
	if item.read != nil {
		item.read.run(unmade)
		return nil
	}
	if unmade != nil {
		return unmade
	}
	if item.region != nil {
		return q.runRegion(item)
	}
	if item.op.CPU == nil {
		return nil
	}
	q.arrays = q.arrays[:0]
	for _, a := range item.op.Args {
		q.arrays = append(q.arrays, a.View.hostArray())
	}
	err = q.s.runOnHost(item.op, q.arrays)
	clear(q.arrays)
	return err
}

// await waits for the work of other streams that the item depends on. unmade is the
// error of the first that failed to make what the item reads. What the storages' state
// says by now does not count: other work may have been enqueued since. dev.mu is not held.
func (q *cpuQueue) await(item *cpuItem) (unmade, err error) {
	if q.holding(item) {
		defer q.unheld()
	}
	for _, dep := range item.deps {
		if err := dep.reach(); err != nil {
			return nil, err
		}
		if unmade == nil {
			unmade = dep.err()
		}
	}
	return unmade, nil
}

// finish marks an item as done. dev.mu is held.
func (q *cpuQueue) finish(item cpuItem) {
	item.op.unpin()
	if item.read != nil {
		item.read.from.unpin()
	}
	if item.region != nil {
		item.region.leave()
	}
	q.s.done++
}

// poll implements queue.
func (q *cpuQueue) poll(value uint64) bool {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	return q.s.done >= value
}

func (q *cpuQueue) timeOps(timing timing) error {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.timing = timing
	return nil
}

// addTime adds the time of a measured op. dev.mu is held.
func (q *cpuQueue) addTime(item cpuItem, at span) {
	op := item.op.Name
	if q.opTimes == nil {
		q.opTimes = make(map[string]OpTime)
	}
	t := q.opTimes[op]
	t.Calls++
	t.Dispatches++
	t.Time += time.Duration(at.length())
	q.opTimes[op] = t
	if item.timing == timeSpans {
		q.s.onDevice(op, op, at)
	}
}

func (q *cpuQueue) stats(out *StreamStats) {
	out.Dispatches = out.Ops + q.replayed
	out.Barriers = q.barriers
	out.Submits = q.submits
	out.OpTimes = maps.Clone(q.opTimes)
}

func (q *cpuQueue) close() {}
