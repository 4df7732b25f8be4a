package kompute

import (
	"fmt"
	"unsafe"
)

// vulkanQueue hands a stream's work to the native library, which records it
// when it is submitted.
type vulkanQueue struct {
	s      *Stream
	b      *vulkanBackend
	handle unsafe.Pointer

	// Guarded by s.mu.
	arrays []nativeArray           // of the op being appended, reused
	seen   map[*vulkanQueue]uint64 // tickets of others that all work from here on is behind
	seenAt uint64                  // what losses was when seen was begun
	// seenLimit is the length at which seen is searched for closed streams.
	seenLimit int

	// Guarded by s.dev.mu.
	windows []window // submitted, by ticket; older ones may be missing
	uploads []upload // not submitted yet, by ticket
	losses  uint64   // times that work was refused
	users   int      // calls that use handle without s.mu
	closed  bool
	timed   bool // some of its work was measured
}

// upload is one that was appended.
type upload struct {
	st     *storage
	ticket uint64
}

// window says which value of the native timeline covers the work up to ticket.
type window struct{ ticket, value uint64 }

// mostWindows bounds the list of windows. Waiting for a later window than
// needed is right, only longer.
const mostWindows = 256

func (q *vulkanQueue) append(op Op) error {
	defer q.unpin(op)
	for _, a := range op.Args {
		if a.View != nil {
			if err := q.ready(a); err != nil {
				return q.s.located(op, "", err)
			}
		}
	}
	if op.uploadOnly {
		return nil
	}
	err := q.record(op)
	if q.s.capture != nil {
		return q.captured(op, err)
	}
	if no, is := err.(*unsupportedError); is && op.algorithm == nil {
		return q.fallback(op, no.reason)
	}
	if err != nil {
		return q.s.located(op, "", err)
	}
	q.done(op)
	return nil
}

func (q *vulkanQueue) unpin(op Op) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	op.unpin()
}

// ready sees to it that an operand's storage has device memory, with current
// content if any of it matters, and that work from here on comes after what
// other streams do with it.
func (q *vulkanQueue) ready(a Arg) error {
	return q.readyStorage(a.View.st, !a.overwrites(), a.Access&AccessWrite != 0 && q.s.capture == nil)
}

// readyStorage is ready for storage whose content is needed, and which is
// written.
func (q *vulkanQueue) readyStorage(st *storage, needed, written bool) error {
	d := q.s.dev
	if st.bytes == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for st.busy {
		d.cond.Wait()
	}
	upload := needed && st.hostValid && !st.deviceValid
	if needed {
		d.transfers.looked(!upload)
	}
	deps := q.conflicts(st, upload || written)
	if st.res.buf != nil && !upload && len(deps) == 0 {
		return nil
	}
	st.acquire()
	defer st.releaseBusy()
	mem, losses := st.host, q.losses
	d.mu.Unlock()
	err := q.provide(st, deps, mem, upload)
	d.mu.Lock()
	if err == nil && losses != q.losses {
		err = q.s.err // the upload may have been in what was refused
	}
	if err == nil && upload {
		q.uploaded(st)
		d.uploaded(q.s, st.bytes)
		if st.fellBack {
			st.fellBack = false
			q.s.fallbackMoves.Uploads++
			q.s.fallbackMoves.UploadBytes += uint64(st.bytes)
		}
	}
	return err
}

// uploaded notes that an upload was appended. dev.mu is held.
func (q *vulkanQueue) uploaded(st *storage) {
	q.s.appended++
	st.deviceValid = true
	st.writer = mark{q.s, q.s.appended}
	st.readers = st.readers[:0]
	q.uploads = append(q.uploads, upload{st, q.s.appended})
}

// provide does the native calls of ready. st is busy, dev.mu not held.
func (q *vulkanQueue) provide(st *storage, deps []mark, mem []byte, upload bool) error {
	if st.res.buf == nil {
		buf, err := q.b.buffer(q.s, st.bytes)
		if err != nil {
			return err
		}
		st.res.buf = buf
	}
	for _, m := range deps {
		if err := q.after(m); err != nil {
			return err
		}
	}
	if !upload {
		return nil
	}
	defer q.s.onHost("transfer", "upload", "bytes", len(mem))()
	return q.submitting(q.b.native.upload(q.handle, st.res.buf, 0, mem))
}

// takeSpans moves to the trace what was measured. The queue is not closed
// meanwhile.
func (q *vulkanQueue) takeSpans() {
	if q.s.dev.opts.trace != nil {
		q.b.native.takeSpans(q.handle, q.s.onDevice)
	}
}

// record makes the native call that appends op.
func (q *vulkanQueue) record(op Op) error {
	q.arrays = q.arrays[:0]
	for _, a := range op.Args {
		na, err := q.nativeArray(a)
		if err != nil {
			return err
		}
		q.arrays = append(q.arrays, na)
	}
	defer clear(q.arrays)
	if op.algorithm != nil {
		if !op.algorithm.res.enter() {
			return fmt.Errorf("the algorithm is %w", ErrClosed)
		}
		defer op.algorithm.res.leave()
		return q.b.native.dispatch(q.handle, op.algorithm.handle, q.arrays, op.groups, op.push)
	}
	if q.s.dev.opts.disabled[op.Name] {
		return &unsupportedError{disabledReason}
	}
	index := q.b.findOp(op.Name)
	if index < 0 {
		return &unsupportedError{"no native kernel"}
	}
	return q.b.native.op(q.handle, index, q.arrays, op.Params)
}

// nativeArray describes an operand to the native library. One that has no
// elements gets memory all the same: NULL would mean that it is absent.
func (q *vulkanQueue) nativeArray(a Arg) (nativeArray, error) {
	if a.View == nil {
		return nativeArray{}, nil
	}
	v := a.View
	l := v.layout
	out := nativeArray{
		buffer: v.st.res.buf, dtype: uint32(v.dtype), access: uint32(a.Access), rank: uint32(len(l.Shape)), offset: int64(l.Offset),
	}
	for i := range l.Shape {
		out.shape[i], out.strides[i] = int64(l.Shape[i]), int64(l.Strides[i])
	}
	if l.Size() > 0 {
		return out, nil
	}
	out.offset = 0
	var err error
	if out.buffer == nil {
		out.buffer, err = q.b.placeholder()
	}
	return out, err
}

// onDevice notes that the device's copy is now the newest. dev.mu is held.
func (st *storage) onDevice() {
	if st.mapped {
		return
	}
	st.deviceValid, st.hostValid, st.fellBack = true, false, false
	if !st.busy && st.host != nil {
		st.dropHost()
	}
}

// done notes what op, which was appended, does with its operands.
func (q *vulkanQueue) done(op Op) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.s.appended++
	m := mark{q.s, q.s.appended}
	for _, a := range op.Args {
		switch {
		case a.View == nil:
		case a.Access&AccessWrite == 0:
			a.View.st.read(m)
		default:
			st := a.View.st
			st.wrote(m)
			st.onDevice()
		}
	}
}
