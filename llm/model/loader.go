package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// Loader turns tensors of a checkpoint into parts of a model, by the paths that
// the checkpoint gives them. It keeps the first error, such as a tensor that is
// missing or has another shape; anything that it returns after an error is
// unusable.
//
// A loader may only plan: it then checks every tensor and adds up the memory, without
// touching device or data.
type Loader[T kompute.Float] struct {
	ctx      context.Context
	weights  *checkpoint.Checkpoint
	device   *kompute.Device
	stream   *kompute.Stream // nil: plan only
	progress func(bytes int64)

	most  int64 // bytes of one tensor on the device; 0: no limit
	bytes int64 // on the device so far
	room  int64 // of the device's memory, beside weights and cache
	owned []io.Closer
	err   error

	headless error // why the network has no head; nil: it has one
}

func (l *Loader[T]) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// grow counts the device memory of one more tensor.
func (l *Loader[T]) grow(t checkpoint.Tensor, bytes int64) {
	l.checkSize(t, bytes)
	l.bytes += bytes
}

// checkSize fails if one tensor cannot have that many bytes.
func (l *Loader[T]) checkSize(t checkpoint.Tensor, bytes int64) {
	if l.most > 0 && bytes > l.most {
		l.fail(&FitError{
			What: fmt.Sprintf("%s: tensor %q", t.File, t.Name), Device: l.device.Info().Name,
			Needed: bytes, Available: l.most, Limit: "for one tensor",
		})
	}
}

// report calls Progress with the amount loaded so far.
func (l *Loader[T]) report() {
	if l.progress != nil {
		l.progress(l.bytes)
	}
}

// wrap puts a tensor of element type E on the device as it is stored, without a
// copy on the host where the file aligns it. A plan gives nil.
func wrap[E kompute.Element, T kompute.Float](l *Loader[T], t checkpoint.Tensor) *kompute.Tensor[E] {
	l.fail(l.ctx.Err())
	if l.err != nil {
		return nil
	}
	if l.grow(t, int64(len(t.Data))); l.stream == nil || l.err != nil {
		return nil
	}
	v, err := kompute.Wrap(l.device, t.DType, t.Aligned(), l.weights, t.Shape...)
	var out *kompute.Tensor[E]
	if err == nil {
		out, err = kompute.As[E](v)
	}
	if err != nil {
		l.fail(fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err))
		return nil
	}
	l.owned = append(l.owned, out)
	l.stream.Upload(out)
	l.report()
	return out
}

// activation puts a floating-point tensor on the device in the type of the
// activations, which may round it.
func (l *Loader[T]) activation(t checkpoint.Tensor) *kompute.Tensor[T] {
	switch {
	case l.err != nil:
		return nil
	case t.DType == array.DTypeOf[T]():
		return wrap[T](l, t)
	case l.stream == nil:
		l.checkSize(t, int64(len(t.Data))) // convert puts that on the device, too
		l.grow(t, int64(t.Size()*array.DTypeOf[T]().Size()))
		return nil
	}
	switch t.DType {
	case array.Float32:
		return convert[float32](l, t)
	case array.Float16:
		return convert[kompute.Float16](l, t)
	default:
		return convert[kompute.BFloat16](l, t)
	}
}

// convert puts t on the device as stored, converts it there and frees the
// stored form, so that a model does not need memory for both.
func convert[From, T kompute.Float](l *Loader[T], t checkpoint.Tensor) *kompute.Tensor[T] {
	before, owned := l.bytes, len(l.owned)
	from := wrap[From](l, t)
	if from == nil {
		return nil
	}
	out := ops.Cast[T](l.stream, from)
	l.bytes, l.owned = before, append(l.owned[:owned], out)
	l.grow(t, int64(t.Size()*array.DTypeOf[T]().Size()))
	l.report()
	if err := errors.Join(l.stream.Flush(), from.Close()); err != nil {
		l.fail(fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err))
	}
	return out
}

// RMSNorm loads path.weight, of n elements.
func (l *Loader[T]) RMSNorm(path string, n int, eps float64) *nn.RMSNorm[T] {
	if l.err != nil {
		return nil
	}
	t, err := l.weights.Expect(path+".weight", n)
	l.fail(err)
	return &nn.RMSNorm[T]{Weight: l.activation(t), Eps: float32(eps)}
}

// module finds the weights of a module that maps in features to out.
func (l *Loader[T]) module(path string, out, in int) checkpoint.Module {
	if l.err != nil {
		return checkpoint.Module{}
	}
	m, err := l.weights.Module(path, out, in)
	l.fail(err)
	return m
}

// Linear loads the projection at path of in features to out, dense or quantized,
// with its bias if there is one.
func (l *Loader[T]) Linear(path string, out, in int) nn.Linear[T] {
	m := l.module(path, out, in)
	if l.err != nil {
		return nil
	}
	w := l.table(m).Tied()
	if m.Bias.Name == "" {
		return w
	}
	return &nn.Biased[T]{Linear: w, Bias: l.activation(m.Bias)}
}

// BiasedLinear is Linear for a projection that must have a bias.
func (l *Loader[T]) BiasedLinear(path string, out, in int) nn.Linear[T] {
	if l.err == nil && !l.weights.Has(path+".bias") {
		l.fail(&checkpoint.MissingError{File: l.weights.Name(), Tensor: path + ".bias", Reason: "config.json asks for it"})
	}
	return l.Linear(path, out, in)
}

// Embedding loads the table at path, which has one row of width elements for each
// token. It is never nil, so that Tied can be called at once.
func (l *Loader[T]) Embedding(path string, tokens, width int) nn.Embedding[T] {
	m := l.module(path, tokens, width)
	if l.err != nil {
		return &nn.DenseEmbedding[T]{}
	}
	return l.table(m)
}

// Constants puts numbers that the checkpoint does not hold, such as a table of
// frequencies, on the device, as [len(values)]. A plan gives nil.
func (l *Loader[T]) Constants(values []float32) *kompute.Tensor[float32] {
	if l.err != nil {
		return nil
	}
	if l.bytes += int64(4 * len(values)); l.stream == nil {
		return nil
	}
	t, err := kompute.New(l.device, values, len(values))
	if err != nil {
		l.fail(err)
		return nil
	}
	l.owned = append(l.owned, t)
	l.stream.Upload(t)
	return t
}

// table loads the matrix of a module, dense or quantized.
func (l *Loader[T]) table(m checkpoint.Module) nn.Embedding[T] {
	if !m.Quantized {
		return &nn.DenseEmbedding[T]{Dense: l.matrix(m.Weight)}
	}
	switch m.Scales.DType {
	case array.Uint8:
		return quantizedTable[uint8](l, m)
	case array.Float32:
		return quantizedTable[float32](l, m)
	case array.Float16:
		return quantizedTable[kompute.Float16](l, m)
	default:
		return quantizedTable[kompute.BFloat16](l, m)
	}
}

func (l *Loader[T]) matrix(t checkpoint.Tensor) nn.Dense[T] {
	weight := l.activation(t)
	if weight == nil {
		return nn.Dense[T]{}
	}
	transposed := weight.Transpose()
	l.owned = append(l.owned, transposed)
	return nn.Dense[T]{Weight: weight, Transposed: transposed}
}

func quantizedTable[S ops.Scale, T kompute.Float](l *Loader[T], m checkpoint.Module) nn.Embedding[T] {
	q := nn.Quantized[T, S]{
		Weight:  l.codes(m),
		Scales:  wrap[S](l, m.Scales),
		Packing: ops.Quantization{GroupSize: m.Packing.GroupSize, Bits: max(m.Packing.Bits, 2)},
	}
	for _, mode := range []ops.Mode{ops.ModeMXFP4, ops.ModeNVFP4, ops.ModeMXFP8} {
		if m.Packing.Mode == mode.String() {
			q.Packing.Mode = mode
		}
	}
	if q.Packing.Mode == ops.ModeAffine {
		q.Biases = wrap[S](l, m.Biases)
	}
	return &nn.QuantizedEmbedding[T, S]{Quantized: q}
}

// codes loads those of a quantized module. Ops have no codes of one bit: they become codes
// of two bits with the same values.
func (l *Loader[T]) codes(m checkpoint.Module) *kompute.Tensor[uint32] {
	t := m.Weight
	if m.Packing.Bits != 1 || l.err != nil {
		return wrap[uint32](l, t)
	}
	t.Shape = []int{t.Shape[0], 2 * t.Shape[1]}
	if l.stream == nil {
		l.grow(t, int64(2*len(t.Data)))
		return nil
	}
	t.Data = twoBits(t.Data)
	return wrap[uint32](l, t)
}

// twoBits puts a zero above each bit of a little-endian stream.
func twoBits(stream []byte) []byte {
	out := make([]byte, 0, 2*len(stream))
	for _, b := range stream {
		wide := uint16(0)
		for i := range 8 {
			wide |= uint16(b>>i&1) << (2 * i)
		}
		out = binary.LittleEndian.AppendUint16(out, wide)
	}
	return out
}

// finish waits until the device has the weights, which the host then no longer needs.
func (l *Loader[T]) finish() error {
	defer l.weights.Unload()
	return errors.Join(l.stream.Synchronize(l.ctx), l.stream.Close())
}
