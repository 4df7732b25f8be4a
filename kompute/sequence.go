package kompute

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Sequence is a list of operations that each call of Eval runs in order. Each
// sees what earlier ones wrote; no barriers are needed. Eval returns errors of
// Record.
type Sequence struct {
	device *Device

	mu      sync.Mutex
	stream  *Stream // nil if it could not be made
	ops     []Operation
	err     error
	pending *Event // after what EvalAsync started
}

// Operation is an operation of a Sequence: SyncDevice, SyncLocal or Dispatch.
type Operation struct {
	kind      operationKind
	tensors   []AnyTensor
	algorithm *Algorithm
	push      []uint32
}

type operationKind uint8

const (
	noOperation operationKind = iota
	syncDevice
	syncLocal
	dispatch
)

// SyncDevice uploads tensors to the device. Work that needs them does so
// anyway; this does it earlier.
func SyncDevice(tensors ...AnyTensor) Operation {
	return Operation{kind: syncDevice, tensors: slices.Clone(tensors)}
}

// SyncLocal copies tensors to the host at the end of the evaluation, so that
// Read does not have to.
func SyncLocal(tensors ...AnyTensor) Operation {
	return Operation{kind: syncLocal, tensors: slices.Clone(tensors)}
}

// Dispatch runs an algorithm with its own push constants, or with the given
// ones, which must be the same number.
func Dispatch(a *Algorithm, push ...uint32) Operation {
	return Operation{kind: dispatch, algorithm: a, push: slices.Clone(push)}
}

// Record adds operations and returns the sequence.
func (q *Sequence) Record(ops ...Operation) *Sequence {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, op := range ops {
		if err := op.check(); err != nil && q.err == nil {
			q.err = fmt.Errorf("operation %d of a sequence: %w", len(q.ops)+i, err)
		}
	}
	q.ops = append(q.ops, ops...)
	return q
}

// check validates an operation when it is recorded.
func (o Operation) check() error {
	switch {
	case o.kind == noOperation:
		return fmt.Errorf("empty: %w", ErrInvalid)
	case o.kind == dispatch && o.algorithm == nil:
		return fmt.Errorf("no algorithm: %w", ErrInvalid)
	case o.kind == dispatch:
		_, err := o.algorithm.op(o.push)
		return err
	}
	for _, t := range o.tensors {
		if t == nil || t.View() == nil {
			return fmt.Errorf("nil tensor: %w", ErrInvalid)
		}
		if err := t.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Clear waits for the work that was started, and removes the operations and the
// error.
func (q *Sequence) Clear() *Sequence {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.close() // Clear discards earlier errors
	q.ops, q.pending = nil, nil
	q.stream, q.err = q.device.NewStream()
	return q
}

// Close waits for the work that was started and frees the sequence. Evaluating
// it afterwards returns ErrClosed; closing it again does nothing.
func (q *Sequence) Close() error {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.close()
}

func (q *Sequence) close() error {
	if q.stream == nil {
		return nil
	}
	return q.stream.Close()
}

// Eval runs the operations and waits for them. It returns the first error of
// Record, of an operation, or of the context; if the context ends first, the
// work continues.
func (q *Sequence) Eval(ctx context.Context) error {
	if err := q.EvalAsync(); err != nil {
		return err
	}
	return q.EvalAwait(ctx)
}

var errNilSequence = fmt.Errorf("the sequence is nil, or no Manager made it: %w", ErrInvalid)

// EvalAsync starts the operations without waiting; EvalAwait waits for them.
func (q *Sequence) EvalAsync() error {
	if q == nil {
		return errNilSequence
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if q.stream == nil {
		return errNilSequence
	}
	for _, o := range q.ops {
		switch o.kind {
		case syncDevice:
			q.stream.Upload(o.tensors...)
		case dispatch:
			op, err := o.algorithm.op(o.push)
			if err != nil {
				return err
			}
			q.stream.Enqueue(op)
		}
	}
	q.pending = q.stream.Record()
	return q.stream.Err()
}

// EvalAwait waits for the last EvalAsync and then performs its SyncLocal
// operations. Without EvalAsync it does nothing.
func (q *Sequence) EvalAwait(ctx context.Context) error {
	if q == nil {
		return errNilSequence
	}
	q.mu.Lock()
	event, ops := q.pending, slices.Clone(q.ops)
	q.mu.Unlock()
	if event == nil {
		return nil
	}
	if err := event.Wait(ctx); err != nil {
		return err
	}
	for _, o := range ops {
		if o.kind != syncLocal {
			continue
		}
		for _, t := range o.tensors {
			if err := t.View().bringHome(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// bringHome updates the host's copy of the whole storage.
func (v *View) bringHome(ctx context.Context) error {
	return v.onHost(ctx, "read", func() error {
		return v.st.dev.backend.read(ctx, v.st, 0, v.st.bytes, func([]byte, int) {})
	})
}
