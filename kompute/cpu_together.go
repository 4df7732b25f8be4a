package kompute

import (
	"bytes"
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// take takes the first item off the queue, and with it those that follow and can run
// at once with it: products of the same rows, as for queries, keys and values. There is
// a submitted one. dev.mu is held.
func (q *cpuQueue) take() []cpuItem {
	q.batch = append(q.batch[:0], q.pop())
	for q.s.done+uint64(len(q.batch)) < q.s.submitted && together(q.batch, &q.items[q.first]) {
		q.batch = append(q.batch, q.pop())
	}
	return q.batch
}

func (q *cpuQueue) pop() cpuItem {
	item := q.items[q.first]
	q.items[q.first] = cpuItem{}
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	return item
}

// together reports whether an item is a product of the same rows as those of a batch,
// and independent of their results.
func together(batch []cpuItem, item *cpuItem) bool {
	o, first := &opdef.QuantizedMatMul, &batch[0]
	if !first.isProduct() || !item.isProduct() || first.timing != item.timing || !bytes.Equal(first.op.Params, item.op.Params) {
		return false
	}
	x, other := first.op.Args[o.X.Index].View, item.op.Args[o.X.Index].View
	if x.st != other.st || x.dtype != other.dtype || x.layout.Offset != other.layout.Offset ||
		!slices.Equal(x.layout.Shape, other.layout.Shape) || !slices.Equal(x.layout.Strides, other.layout.Strides) {
		return false
	}
	for i := range batch {
		if batch[i].op.touches(item.op.Args[o.Out.Index].View.st) || item.op.touches(batch[i].op.Args[o.Out.Index].View.st) {
			return false
		}
	}
	return true
}

// isProduct reports whether the item is a quantized_matmul that waits for no other
// stream.
func (item *cpuItem) isProduct() bool {
	o, args := &opdef.QuantizedMatMul, item.op.Args
	return item.op.Name == o.Name && len(item.deps) == 0 && len(args) == len(o.Operands) && args[o.X.Index].View != nil && args[o.Out.Index].View != nil
}

// touches reports whether a storage is an operand's.
func (op *Op) touches(st *storage) bool {
	return slices.ContainsFunc(op.Args, func(a Arg) bool { return a.View != nil && a.View.st == st })
}

// runBatch runs what take has returned. dev.mu is not held.
func (q *cpuQueue) runBatch(batch []cpuItem) error {
	if len(batch) == 1 {
		return q.run(batch[0])
	}
	calls := make([][]array.Array, len(batch))
	for i := range batch {
		for _, a := range batch[i].op.Args {
			calls[i] = append(calls[i], a.View.hostArray())
		}
	}
	op, done := batch[0].op, false
	op.CPU = func(_ []Array, params []byte) (err error) {
		done, err = fallback.QuantizedProducts(calls, params)
		return err
	}
	if err := q.s.runOnHost(op, nil); err != nil || done {
		return err
	}
	for i := range batch {
		if err := q.run(batch[i]); err != nil {
			return err
		}
	}
	return nil
}
