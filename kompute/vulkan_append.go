package kompute

import (
	"errors"
	"fmt"
	"unsafe"
)

func (q *vulkanQueue) append(op Op) error {
	q.submitted = false
	err := q.record(&op)
	if err == nil && q.s.capture == nil {
		q.appended(&op)
		return nil
	}
	if q.s.capture != nil {
		err = q.captured(&op, err)
	} else if no, is := err.(*unsupportedError); is && op.algorithm == nil {
		err = q.fallback(op, no.reason)
	}
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	op.unpin()
	if err != nil {
		return q.s.located(op, "", err)
	}
	if q.s.capture == nil {
		op.made(q.s)
	}
	return nil
}

// appended records that the native library has taken op, and takes over the tensors that it made.
func (q *vulkanQueue) appended(op *Op) {
	q.s.dev.mu.Lock()
	for i := range op.Args {
		v := op.Args[i].View
		if v == nil {
			continue
		}
		if op.algorithm == nil {
			q.takeMade(op, i)
		}
		if op.Args[i].Access&AccessWrite != 0 {
			v.st.madeBy(q.s)
		}
		v.st.unpin()
	}
	q.s.dev.mu.Unlock()
}

// takeMade keeps the tensor that the native library made for operand i of op, which it has taken. dev.mu is held.
func (q *vulkanQueue) takeMade(op *Op, i int) {
	if a := q.call.array(i); a.create != 0 {
		a.create = 0
		op.Args[i].View.st.takeNative(a.tensor)
	}
}

// takeNative sets the native tensor to the one that an op has made. If a concurrent call has
// made one meanwhile, the op counts as the later of the two. That call may still use its
// tensor, which is freed with the storage. dev.mu is held.
func (st *storage) takeNative(tensor uintptr) {
	if st.res.native != nil {
		st.res.replaced = append(st.res.replaced, uintptr(st.res.native))
	}
	st.res.native = *(*unsafe.Pointer)(unsafe.Pointer(&tensor)) // not a Go pointer
}

// makeOperands makes the native tensors of storage that has none, except for results that the op is to make.
func (q *vulkanQueue) makeOperands(op *Op) error {
	for i := range op.Args {
		a := &op.Args[i]
		if a.View == nil || op.algorithm == nil && a.isNew() {
			continue
		}
		if err := q.retryOutOfMemory(func() error { _, err := q.b.handle(a.View.st); return err }); err != nil {
			return err
		}
	}
	return nil
}

// isNew reports whether the op writes all of a storage, and its elements in order.
func (a *Arg) isNew() bool {
	v := a.View
	return a.Access == AccessWrite && v.lo == 0 && v.hi == v.size && v.size*v.dtype.Size() == v.st.bytes
}

// record makes the native call that appends op.
func (q *vulkanQueue) record(op *Op) error {
	if op.algorithm != nil {
		if err := q.makeOperands(op); err != nil {
			return err
		}
		arrays := q.nativeArrays(op)
		if !op.algorithm.res.enter() {
			return fmt.Errorf("the algorithm is %w", ErrClosed)
		}
		defer op.algorithm.res.leave()
		return q.retryOutOfMemory(func() error {
			return q.b.native.dispatch(q.handle, op.algorithm.handle, arrays, op.groups, op.push)
		})
	}
	if disabled := q.s.dev.opts.disabled; len(disabled) > 0 && disabled[op.Name] {
		return &unsupportedError{disabledReason}
	}
	index := q.ops.find(q.b.native, op.Name)
	if index < 0 {
		return &unsupportedError{"no native kernel"}
	}
	if !q.setCall(op) {
		if err := q.makeOperands(op); err != nil {
			return err
		}
		q.setCall(op)
	}
	err := q.b.native.op(q.handle, index, &q.call, len(op.Args), len(op.Params))
	if err != nil && lacksMemory(err) {
		err = q.retryAfter(err, func() error { return q.b.native.op(q.handle, index, &q.call, len(op.Args), len(op.Params)) })
	}
	q.b.logRefusals()
	return err
}

// setCall is set of q.call. It takes dev.mu because other streams may use the operands,
// and Keep may move them, meanwhile.
func (q *vulkanQueue) setCall(op *Op) bool {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	return q.call.set(q.b.native, op)
}

// nativeArrays returns the operands of an algorithm's dispatch.
func (q *vulkanQueue) nativeArrays(op *Op) []nativeArray {
	arrays := make([]nativeArray, len(op.Args))
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	for i := range op.Args {
		arrays[i].set(&op.Args[i])
	}
	return arrays
}

// retryOutOfMemory calls f. If memory ran out, it waits for the stream's work,
// collects tensors that were never closed, and calls f again.
func (q *vulkanQueue) retryOutOfMemory(f func() error) error {
	err := f()
	if err == nil || !lacksMemory(err) {
		return err
	}
	return q.retryAfter(err, f)
}

// retryAfter calls f when the stream's work is done and unreachable tensors are
// collected. If the stream's context ends first, it returns short, joined
// with the context's error.
func (q *vulkanQueue) retryAfter(short error, f func() error) error {
	ctx := q.s.context()
	value, err := q.flush()
	for err == errBusy {
		if err = q.waitForRoom(ctx); err == nil {
			value, err = q.flush()
		}
	}
	if err == nil {
		err = q.wait(ctx, value)
	}
	if err != nil {
		if ctx.Err() != nil {
			return errors.Join(short, ctx.Err())
		}
		return err
	}
	collect()
	return f()
}

// made records that work of s makes the op's results. dev.mu is held.
func (op Op) made(s *Stream) {
	for _, a := range op.Args {
		if a.View != nil && a.Access&AccessWrite != 0 {
			a.View.st.madeBy(s)
		}
	}
}
