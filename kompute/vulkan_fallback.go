package kompute

import (
	"context"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/internal/array"
)

// fallback runs on the host an op that the device does not support: it reads the bytes of the op's
// operands, runs the op and writes its results. The cost is counted.
//
// This is the only way from a Vulkan stream to the CPU, and append is its only caller: only for the
// error "unsupported", which record also returns for a disabled op.
func (q *vulkanQueue) fallback(op Op, reason string) error {
	d := q.s.dev
	if d.opts.strict || op.CPU == nil {
		return opError(&op, reason, ErrUnsupported)
	}
	defer q.s.onHost("fallback", op.Name+" on the CPU", "reason", reason)()
	d.mu.Lock()
	q.s.countFallback(op.Name, reason)
	d.mu.Unlock()
	d.logFallback(&op, reason)
	op.Params = slices.Clone(op.Params) // the function may change them
	f := hostRun{q: q, op: op, arrays: make([]array.Array, len(op.Args)), reads: make([]*vulkanRead, len(op.Args))}
	defer f.close()
	if err := f.bringDown(q.s.context()); err != nil {
		return err
	}
	if err := q.s.runOnHost(op, f.arrays); err != nil {
		return err
	}
	return f.bringUp(q.s.context())
}

// hostRun is one op that runs on the host.
type hostRun struct {
	q      *vulkanQueue
	op     Op
	arrays []array.Array
	reads  []*vulkanRead // of operands that the op reads
}

// bringDown reads the op's inputs and allocates its outputs. All reads are
// started before the first wait.
func (f *hostRun) bringDown(ctx context.Context) error {
	for i, a := range f.op.Args {
		if a.View == nil || a.Access == AccessWrite || a.View.layout.Size() == 0 {
			continue
		}
		lo, hi := a.View.extentBytes()
		r, err := f.q.b.startRead(a.View.st, f.q.b.transfersHandle(), true, lo, hi)
		if err != nil {
			return err
		}
		f.reads[i] = r
		if f.q.b.native.readMoved(r.handle) {
			f.moved(FallbackMoves{Downloads: 1, DownloadBytes: uint64(r.n)})
		}
	}
	for i, a := range f.op.Args {
		if a.View == nil {
			continue
		}
		if r := f.reads[i]; r != nil {
			if err := f.await(ctx, i, r); err != nil {
				return err
			}
		} else if a.Access == AccessRead { // it has no elements, so nothing is read
			f.arrays[i] = array.Array{DType: a.View.dtype, Layout: array.Layout{Shape: a.View.layout.Shape, Strides: a.View.layout.Strides}}
		}
		if a.Access&AccessWrite != 0 {
			if err := f.makeRoom(i, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// await waits for a read, and makes the operand a view of its bytes.
func (f *hostRun) await(ctx context.Context, i int, r *vulkanRead) error {
	moved, start := f.q.b.native.readMoved(r.handle), time.Now()
	if err := r.wait(ctx); err != nil {
		return err
	}
	if moved {
		f.moved(FallbackMoves{Waits: 1, WaitTime: time.Since(start)})
	}
	v := f.op.Args[i].View
	return r.take(func(mem []byte, base int) {
		l := v.layout
		l.Offset -= base / v.dtype.Size()
		f.arrays[i] = array.Array{DType: v.dtype, Layout: l, Data: mem}
	})
}

// makeRoom gives a written operand its own contiguous memory, with the content
// that the op may read.
func (f *hostRun) makeRoom(i int, a Arg) error {
	if overlaps(a.View.layout) {
		return f.q.s.located(f.op, "a written operand repeats elements", ErrInvalid)
	}
	l, err := array.Contiguous(a.View.layout.Shape...)
	if err != nil {
		return err
	}
	room := array.Array{DType: a.View.dtype, Layout: l, Data: alignedBytes(l.Size() * a.View.dtype.Size())}
	if f.reads[i] != nil {
		gatherBytes(room.Data, f.arrays[i].Data, a.View.dtype.Size(), f.arrays[i].Layout)
	}
	f.arrays[i] = room
	return nil
}

// bringUp writes the op's results, as work of the stream.
func (f *hostRun) bringUp(ctx context.Context) error {
	for i, a := range f.op.Args {
		if a.View == nil || a.Access&AccessWrite == 0 || a.View.layout.Size() == 0 {
			continue
		}
		if err := f.q.b.writeView(ctx, a.View, f.q.handle, f.arrays[i].Data); err != nil {
			return err
		}
		f.moved(FallbackMoves{Uploads: 1, UploadBytes: uint64(len(f.arrays[i].Data))})
	}
	return nil
}

func (f *hostRun) close() {
	for _, r := range f.reads {
		if r != nil {
			r.drop()
		}
	}
}

// moved counts what the fallback copies and waits for.
func (f *hostRun) moved(m FallbackMoves) {
	s := f.q.s
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.fallbackMoves = addFallbackMoves(s.fallbackMoves, f.op.Name, m)
}
