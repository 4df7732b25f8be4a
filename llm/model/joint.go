package model

import (
	"errors"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// Joint moves the matrices of projections of the same x into one, in which they follow
// one another, and returns the projection by all of it; the projections themselves then
// read their parts of it. It returns nil, and leaves them as they are, if they have
// biases or different types or packings, or no memory is left for both, and on the CPU,
// which uses the checkpoint's memory and computes products of the same x together by
// itself.
func (l *Loader[T]) Joint(projections ...nn.Linear[T]) nn.Linear[T] {
	if l.err != nil || l.stream == nil || l.device.Backend() == "cpu" {
		return nil
	}
	var joint nn.Linear[T]
	switch projections[0].(type) {
	case *nn.Dense[T]:
		joint = jointDense(l, projections)
	case *nn.Quantized[T, uint8]:
		joint = jointQuantized[uint8](l, projections)
	case *nn.Quantized[T, float32]:
		joint = jointQuantized[float32](l, projections)
	case *nn.Quantized[T, kompute.Float16]:
		joint = jointQuantized[kompute.Float16](l, projections)
	case *nn.Quantized[T, kompute.BFloat16]:
		joint = jointQuantized[kompute.BFloat16](l, projections)
	}
	if joint != nil { // the memory of the former matrices serves the next ones
		if err := l.stream.Synchronize(l.ctx); err != nil {
			l.fail(err)
		}
	}
	return joint
}

func jointDense[T kompute.Float](l *Loader[T], projections []nn.Linear[T]) nn.Linear[T] {
	var weights []**kompute.Tensor[T]
	for _, p := range projections {
		d, ok := p.(*nn.Dense[T])
		if !ok {
			return nil
		}
		weights = append(weights, &d.Weight)
	}
	if !l.canJoin(sizes(weights)) {
		return nil
	}
	weight := join(l, weights)
	for _, p := range projections {
		d := p.(*nn.Dense[T])
		if err := d.Transposed.Close(); err != nil { // a view of the former matrix, which it would keep
			l.fail(err)
		}
		d.Transposed = d.Weight.Transpose()
		l.owned = append(l.owned, d.Transposed)
	}
	out := &nn.Dense[T]{Weight: weight, Transposed: weight.Transpose()}
	l.owned = append(l.owned, out.Transposed)
	return out
}

func jointQuantized[S ops.Scale, T kompute.Float](l *Loader[T], projections []nn.Linear[T]) nn.Linear[T] {
	var weights []**kompute.Tensor[uint32]
	var scales, biases []**kompute.Tensor[S]
	out := &nn.Quantized[T, S]{Packing: projections[0].(*nn.Quantized[T, S]).Packing}
	for _, p := range projections {
		q, ok := p.(*nn.Quantized[T, S])
		if !ok || q.Packing != out.Packing {
			return nil
		}
		weights, scales = append(weights, &q.Weight), append(scales, &q.Scales)
		if q.Biases != nil {
			biases = append(biases, &q.Biases)
		}
	}
	if !l.canJoin(sizes(weights)) || !l.canJoin(sizes(scales)) {
		return nil
	}
	out.Weight, out.Scales = join(l, weights), join(l, scales)
	if len(biases) > 0 {
		out.Biases = join(l, biases)
	}
	return out
}

// sizes returns that of each matrix, in bytes.
func sizes[E kompute.Element](parts []**kompute.Tensor[E]) []int {
	var bytes []int
	for _, p := range parts {
		bytes = append(bytes, (*p).Size()*(*p).DType().Size())
	}
	return bytes
}

// canJoin reports whether matrices of these sizes fit into one tensor, in which each begins
// where kernels can load 16 bytes at once, and whether there is memory for it beside them.
func (l *Loader[T]) canJoin(bytes []int) bool {
	all := 0
	for _, n := range bytes {
		if n%16 != 0 {
			return false
		}
		all += n
	}
	return int64(all) <= l.room && (l.most <= 0 || int64(all) <= l.most)
}

// join replaces matrices, which have the same number of columns, by views of one that has
// the rows of all.
func join[E kompute.Element, T kompute.Float](l *Loader[T], parts []**kompute.Tensor[E]) *kompute.Tensor[E] {
	var from []*kompute.Tensor[E]
	for _, p := range parts {
		from = append(from, *p)
	}
	out := ops.Concat(l.stream, 0, from...)
	l.owned = append(l.owned, out)
	err, row := out.Err(), 0
	for i, p := range parts {
		*p = out.Slice(0, row, row+from[i].Dim(0))
		row += from[i].Dim(0)
		l.owned = append(l.owned, *p)
		err = errors.Join(err, from[i].Close())
	}
	if err != nil {
		l.fail(err)
	}
	return out
}
