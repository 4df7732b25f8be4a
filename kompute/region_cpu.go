package kompute

import "github.com/kompute-go/kompute-go/internal/array"

// cpuRegion is a list of ops that the worker runs in each replay. Their storage
// stays pinned, so that its memory does not move.
type cpuRegion struct {
	ops    []Op
	arrays [][]array.Array // of each op; made by the first replay
	memory []transient
	uses   []regionUse // of transients as well
}

func (q *cpuQueue) beginCapture() error { return nil }

// appendCaptured is append during a capture. The ops stay pinned. dev.mu is held.
func (q *cpuQueue) appendCaptured(op Op) { q.s.capture.note(op) }

func (q *cpuQueue) abortCapture(c *capture) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	for _, op := range c.ops {
		op.unpin()
	}
}

func (q *cpuQueue) endCapture(r *Region, c *capture) error {
	d := q.s.dev
	d.mu.Lock()
	memory := c.transients()
	d.mu.Unlock()
	bytes, unplanned := planTransients(memory)
	arena := alignedBytes(bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range memory {
		t.st.cpu.host = arena[t.offset : t.offset+t.st.bytes]
	}
	r.cpu = &cpuRegion{ops: c.ops, memory: memory, uses: c.uses}
	r.stats = RegionStats{
		Ops: uint64(len(c.ops)), FusedOps: uint64(len(c.ops)), Dispatches: uint64(len(c.ops)),
		Barriers:       uint64(max(len(c.ops)-1, 0)), // each op waits for the one before
		TransientBytes: int64(bytes), TransientBytesUnplanned: int64(unplanned),
	}
	return nil
}

func (q *cpuQueue) freeRegion(r *Region) {
	for _, t := range r.cpu.memory {
		t.st.cpu.host = nil // a part of the arena
	}
	for _, op := range r.cpu.ops {
		op.unpin()
	}
	r.cpu = &cpuRegion{}
}

func (q *cpuQueue) replay(r *Region, times int) error {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	return q.enqueueRegion(cpuItem{region: r, times: times})
}

// enqueueRegion submits an item of replays. dev.mu is held.
func (q *cpuQueue) enqueueRegion(item cpuItem) error {
	d, r := q.s.dev, item.region
	for r.busy() {
		d.cond.Wait()
	}
	if err := r.enterLocked(); err != nil {
		return err
	}
	for i := range r.uses {
		item.deps = r.uses[i].st.cpu.conflicts(q.s, r.uses[i].access(), item.deps)
	}
	q.push(item)
	m := mark{q.s, q.s.appended}
	for i := range r.uses {
		r.uses[i].st.cpu.used(r.uses[i].access(), m)
	}
	r.enqueued(item.times)
	q.replayed += uint64(item.times) * r.stats.Dispatches
	q.barriers += uint64(item.times) * r.stats.Barriers
	q.start(q.s.appended)
	return nil
}

// busy reports whether the content of a storage is being moved. dev.mu is held.
func (r *Region) busy() bool {
	for i := range r.uses {
		if r.uses[i].st.cpu.busy {
			return true
		}
	}
	return false
}

// runRegion runs the replays of one item. dev.mu is not held.
func (q *cpuQueue) runRegion(item cpuItem) error {
	r := item.region
	q.s.dev.mu.Lock()
	for i := range r.uses {
		if err := r.uses[i].contentErr(); err != nil {
			q.s.dev.mu.Unlock()
			return err
		}
	}
	q.s.dev.mu.Unlock()
	c := r.cpu
	if c.arrays == nil {
		c.arrays = make([][]array.Array, len(c.ops))
		for i, op := range c.ops {
			for _, a := range op.Args {
				c.arrays[i] = append(c.arrays[i], a.View.hostArray())
			}
		}
	}
	if item.timed != nil {
		return item.timed.run(q, c)
	}
	for range item.times {
		for i, op := range c.ops {
			if err := op.CPU(c.arrays[i]); err != nil {
				return q.s.located(op, "", err)
			}
		}
	}
	return nil
}

// contentErr returns the error of another stream that failed to make an input.
// dev.mu is held.
func (u *regionUse) contentErr() error {
	if !u.needs {
		return nil
	}
	return u.st.contentErr()
}
