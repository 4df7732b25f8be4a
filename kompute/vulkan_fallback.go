package kompute

import (
	"context"

	"github.com/kompute-go/kompute-go/internal/array"
)

// fallback runs on the host an op that the device does not support. It waits
// for the operands that the op reads; what it writes is current on the host
// from then on, and goes up when the device needs it. What waits and copies that
// costs is counted.
//
// This is the only way from a Vulkan stream to the CPU, and append the only place
// that takes it: for the answer "unsupported", which record gives for an op that is
// switched off too, and for no other.
func (q *vulkanQueue) fallback(op Op, reason string) error {
	d := q.s.dev
	if d.opts.strict || op.CPU == nil {
		return opError(&op, reason, ErrUnsupported)
	}
	defer q.s.onHost("fallback", op.Name+" on the CPU", "reason", reason)()
	d.mu.Lock()
	q.s.countFallback(op.Name, reason)
	d.mu.Unlock()
	d.logFallback(op.Name, reason)
	parts := make([]part, len(op.Args))
	if err := q.bringDown(op, parts); err != nil {
		return err
	}
	arrays, err := q.hostArrays(op, parts)
	if err == nil {
		err = op.CPU(arrays)
	}
	for i := range parts {
		if err == nil && parts[i].used && op.Args[i].Access&AccessWrite != 0 {
			err = q.putBack(op.Args[i].View.st, &parts[i])
		}
	}
	q.fellBack(op, parts, err == nil)
	if err != nil {
		return q.s.located(op, "", err)
	}
	return nil
}

// fellBack notes what a fallback has done, and lets others at its operands.
func (q *vulkanQueue) fellBack(op Op, parts []part, done bool) {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, a := range op.Args {
		if a.View == nil {
			continue
		}
		st := a.View.st
		if done && a.Access&AccessWrite != 0 && !parts[i].used {
			st.hostValid, st.deviceValid = true, st.mapped
			st.source, st.err, st.fellBack = q.s, nil, !st.mapped
		}
		st.busy = false
	}
	d.cond.Broadcast()
}

// part is host memory for the bytes of an operand's view, where the device alone
// has the storage's content and the view is a small part of it.
type part struct {
	used   bool
	lo, hi int // of the storage, in bytes
	mem    []byte
}

// findParts tells which operands are brought down in part: those that share their
// storage with no other. dev.mu is held.
func (op Op) findParts(parts []part) {
	uses := make(map[*storage]int)
	for _, a := range op.Args {
		if a.View != nil {
			uses[a.View.st]++
		}
	}
	for i, a := range op.Args {
		parts[i] = part{}
		if a.View == nil || uses[a.View.st] > 1 || a.View.st.mapped || !a.View.st.onlyOnDevice() {
			continue
		}
		lo, hi := a.View.layout.Extent()
		size := a.View.dtype.Size()
		lo, hi = lo*size&^15, hi*size
		parts[i] = part{used: hi-lo > 0 && hi-lo <= a.View.st.bytes/2, lo: lo, hi: hi}
	}
}

// hostArrays makes the op's arrays, and brings down the parts. The operands are
// busy, dev.mu is not held.
func (q *vulkanQueue) hostArrays(op Op, parts []part) ([]array.Array, error) {
	arrays := make([]array.Array, len(op.Args))
	for i, a := range op.Args {
		p := &parts[i]
		if !p.used {
			arrays[i] = a.View.hostArray()
			continue
		}
		st := a.View.st
		mem, lo, err := q.b.load(st, p.lo, p.hi)
		if err != nil {
			return nil, err
		}
		d := q.s.dev
		d.mu.Lock()
		q.s.fallbackMoves.Waits++
		q.s.fallbackMoves.Downloads++
		q.s.fallbackMoves.DownloadBytes += uint64(len(mem))
		err = st.contentErr() // the work that was waited for may have failed
		d.mu.Unlock()
		if err != nil {
			return nil, err
		}
		p.lo, p.mem = lo, mem
		l := a.View.layout
		l.Offset -= lo / a.View.dtype.Size()
		arrays[i] = array.Array{DType: a.View.dtype, Layout: l, Data: mem}
	}
	return arrays, nil
}

// putBack brings a part up, as work of the stream. The storage is busy, dev.mu is
// not held.
func (q *vulkanQueue) putBack(st *storage, p *part) error {
	d := q.s.dev
	d.mu.Lock()
	deps := q.conflicts(st, true)
	d.mu.Unlock()
	for _, m := range deps {
		if err := q.after(m); err != nil {
			return err
		}
	}
	if err := q.submitting(q.b.native.upload(q.handle, st.res.buf, p.lo, p.mem)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q.s.appended++
	st.wrote(mark{q.s, q.s.appended})
	d.uploaded(q.s, len(p.mem))
	q.s.fallbackMoves.Uploads++
	q.s.fallbackMoves.UploadBytes += uint64(len(p.mem))
	return nil
}

// bringDown makes the operands whose content matters current on the host, but for
// those that come down in part later, and makes all operands busy.
func (q *vulkanQueue) bringDown(op Op, parts []part) error {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if m, pending := op.mappedConflict(); pending {
			q.s.fallbackMoves.Waits++
			if err := d.waitUnlocked(context.Background(), m); err != nil {
				return err
			}
			continue
		}
		op.findParts(parts)
		if st := op.staleOnHost(parts); st != nil {
			d.mu.Unlock()
			err := st.withHost(context.Background(), 0, st.bytes, func([]byte, int) {})
			d.mu.Lock()
			if err != nil {
				return err
			}
			q.s.fallbackMoves.Waits++
			q.s.fallbackMoves.Downloads++
			q.s.fallbackMoves.DownloadBytes += uint64(st.bytes)
			continue
		}
		if !op.busy() {
			break
		}
		d.cond.Wait()
	}
	for _, a := range op.Args {
		if a.View != nil {
			a.View.st.busy = true
		}
	}
	return nil
}

// mappedConflict returns work that still uses a mapped operand. dev.mu is held.
func (op Op) mappedConflict() (mark, bool) {
	for _, a := range op.Args {
		if a.View == nil || !a.View.st.mapped {
			continue
		}
		if m, pending := a.View.st.hostConflict(false); pending {
			return m, true
		}
	}
	return mark{}, false
}

// staleOnHost returns an operand's storage whose content the host has not, and
// needs. dev.mu is held.
func (op Op) staleOnHost(parts []part) *storage {
	for i, a := range op.Args {
		if a.View == nil || a.overwrites() || parts[i].used {
			continue
		}
		if st := a.View.st; st.deviceValid && !st.hostValid {
			return st
		}
	}
	return nil
}
