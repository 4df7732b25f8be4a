package kompute

import (
	"time"
	"weak"

	"github.com/kompute-go/kompute-go/internal/workers"
)

// cpuRegion is a region of the CPU backend. The captured ops' storage stays
// pinned, so that its memory moves only by Upload.
type cpuRegion struct {
	ops        []Op      // captured
	calls      []cpuCall // after fusion, in the order in which they run
	dispatches []cpuDispatch
	memory     []transient
	arena      *cpuArena
	schedule   *workers.Schedule // made by the first replay, and again when a tensor has been uploaded
	moved      uint64            // cpuUploads.moved for which it was made
	timed      *cpuProfile       // of the replay under way
}

func (q *cpuQueue) beginCapture() error { return nil }

// appendCaptured is append during a capture. The ops stay pinned. dev.mu is held.
func (q *cpuQueue) appendCaptured(op Op) error {
	if err := op.checkForm(); err != nil {
		op.unpin()
		return err
	}
	q.s.capture.note(op.kept())
	return nil
}

func (q *cpuQueue) abortCapture(c *capture) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	for _, op := range c.ops {
		op.unpin()
	}
}

func (q *cpuQueue) endCapture(r *Region, c *capture) error {
	start := time.Now()
	d := q.s.dev
	d.mu.Lock()
	graph := newCPUGraph(c)
	d.mu.Unlock()
	out, err := graph.lower(c.ops, d.opts.withoutPass)
	if err != nil {
		q.abortCapture(c)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out.memory = graph.transients(c, out.calls)
	planned := !d.opts.withoutPass(memoryPlan)
	bytes, unplanned := planTransients(out.memory, planned)
	out.arena = q.arenaOf(bytes, planned)
	for _, t := range out.memory {
		if t.st != nil {
			t.st.cpu.host = out.arena.memory[t.offset : t.offset+t.bytes]
		}
	}
	r.cpu = out
	r.stats = RegionStats{
		Ops: uint64(len(c.ops)), FusedOps: uint64(len(out.calls)), Dispatches: uint64(len(out.dispatches)),
		TransientBytes: int64(bytes), TransientBytesUnplanned: int64(unplanned),
	}
	for _, one := range out.dispatches {
		if one.barrier {
			r.stats.Barriers++
		}
	}
	r.stats.RecordTime = time.Since(start)
	return nil
}

// cpuArena is memory for transients. The regions of a stream share it, since their replays run one after
// the other.
type cpuArena struct{ memory []byte }

// arenaOf returns the arena that was made last, if it still exists and is large enough, or makes one.
// dev.mu is held.
func (q *cpuQueue) arenaOf(bytes int, share bool) *cpuArena {
	if a := q.arena.Value(); a != nil && len(a.memory) >= bytes && share {
		return a
	}
	a := &cpuArena{alignedBytes(bytes)}
	q.arena = weak.Make(a)
	return a
}

func (q *cpuQueue) freeRegion(r *Region) {
	for _, t := range r.cpu.memory {
		if t.st != nil {
			t.st.cpu.host = nil // a part of the arena
		}
	}
	for _, op := range r.cpu.ops {
		op.unpin()
	}
	r.cpu = &cpuRegion{}
}

func (q *cpuQueue) replay(r *Region, times int) error {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	if q.excess(1) > 0 {
		return errBusy
	}
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
	item.moved = d.backend.(cpuBackend).uploads.moved
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
	c := item.region.cpu
	if c.schedule == nil || c.moved != item.moved {
		if err := c.prepare(q.s); err != nil {
			return err
		}
		c.moved = item.moved
	}
	if item.timed != nil {
		return item.timed.run(c)
	}
	return c.schedule.Run(item.times)
}
