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
	if err := q.bringDown(op); err != nil {
		return err
	}
	arrays := make([]array.Array, len(op.Args))
	for i, a := range op.Args {
		arrays[i] = a.View.hostArray()
	}
	err := op.CPU(arrays)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range op.Args {
		if a.View == nil {
			continue
		}
		st := a.View.st
		if err == nil && a.Access&AccessWrite != 0 {
			st.hostValid, st.deviceValid = true, st.mapped
			st.source, st.err, st.fellBack = q.s, nil, !st.mapped
		}
		st.busy = false
	}
	d.cond.Broadcast()
	if err != nil {
		return q.s.located(op, "", err)
	}
	return nil
}

// bringDown makes the operands whose content matters current on the host, and
// makes all operands busy.
func (q *vulkanQueue) bringDown(op Op) error {
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
		if st := op.staleOnHost(); st != nil {
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
func (op Op) staleOnHost() *storage {
	for _, a := range op.Args {
		if a.View == nil || a.overwrites() {
			continue
		}
		if st := a.View.st; st.deviceValid && !st.hostValid {
			return st
		}
	}
	return nil
}
