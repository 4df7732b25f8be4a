package model

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/ops"
)

// loader turns tensors of a checkpoint into parts of a model. It keeps the
// first error; after one, what it returns is unusable.
//
// A loader without a stream only plans: it checks every tensor against the
// configuration and adds up the memory, and touches neither device nor data.
type loader[T kompute.Float] struct {
	weights  *checkpoint.Checkpoint
	device   *kompute.Device
	stream   *kompute.Stream // nil: plan only
	progress func(bytes int64)

	bytes int64 // on the device so far
	owned []io.Closer
	err   error
}

func (l *loader[T]) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// grow counts the device memory of one more tensor.
func (l *loader[T]) grow(t checkpoint.Tensor, bytes int64) {
	if limit := l.device.Info().MaxTensorBytes; limit > 0 && bytes > limit {
		l.fail(&FitError{What: fmt.Sprintf("%s: tensor %q", t.File, t.Name), Device: l.device.Info().Name, Needed: bytes, Available: limit, Limit: "for one tensor"})
	}
	l.bytes += bytes
}

// report tells how much has been loaded.
func (l *loader[T]) report() {
	if l.progress != nil {
		l.progress(l.bytes)
	}
}

// wrap puts a tensor of element type E on the device as it is stored, without a
// copy on the host where the file aligns it. A plan gives nil.
func wrap[E kompute.Element, T kompute.Float](l *loader[T], t checkpoint.Tensor) *kompute.Tensor[E] {
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
func (l *loader[T]) activation(t checkpoint.Tensor) *kompute.Tensor[T] {
	switch {
	case l.err != nil:
		return nil
	case t.DType == array.DTypeOf[T]():
		return wrap[T](l, t)
	case l.stream == nil:
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
// stored form, so that a model does not need the memory of both.
func convert[From, T kompute.Float](l *loader[T], t checkpoint.Tensor) *kompute.Tensor[T] {
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

// norm loads the weight of an RMSNorm over n elements.
func (l *loader[T]) norm(path string, n int) RMSNorm[T] {
	if l.err != nil {
		return RMSNorm[T]{}
	}
	t, err := l.weights.Expect(path+".weight", n)
	if err != nil {
		l.fail(err)
	}
	return RMSNorm[T]{Weight: l.activation(t), Eps: float32(l.weights.Config.RMSNormEps)}
}

// module finds the weights of a module that maps in features to out.
func (l *loader[T]) module(path string, out, in int) checkpoint.Module {
	if l.err != nil {
		return checkpoint.Module{}
	}
	m, err := l.weights.Module(path, out, in)
	if err != nil {
		l.fail(err)
	}
	return m
}

// linear loads a projection of in features to out, dense or quantized. With
// bias its own bias must be there; one that is there always counts.
func (l *loader[T]) linear(path string, out, in int, bias bool) Linear[T] {
	m := l.module(path, out, in)
	if l.err != nil {
		return nil
	}
	w := l.table(m).Transposed()
	if m.Bias.Name == "" {
		if bias {
			l.fail(&checkpoint.MissingError{File: l.weights.Name(), Tensor: path + ".bias", Reason: "attention_bias asks for it"})
		}
		return w
	}
	return &biased[T]{Linear: w, bias: l.activation(m.Bias)}
}

// embedding loads a table of one row of width elements per token.
func (l *loader[T]) embedding(path string, tokens, width int) Embedding[T] {
	m := l.module(path, tokens, width)
	if l.err != nil {
		return nil
	}
	return l.table(m)
}

// table loads the matrix of a module in the form it has.
func (l *loader[T]) table(m checkpoint.Module) Embedding[T] {
	if !m.Quantized {
		return &denseEmbedding[T]{l.matrix(m.Weight)}
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

func (l *loader[T]) matrix(t checkpoint.Tensor) dense[T] {
	weight := l.activation(t)
	if weight == nil {
		return dense[T]{}
	}
	transposed := weight.Transpose()
	l.owned = append(l.owned, transposed)
	return dense[T]{weight, transposed}
}

func quantizedTable[S ops.Scale, T kompute.Float](l *loader[T], m checkpoint.Module) Embedding[T] {
	q := quantized[T, S]{
		weight:  wrap[uint32](l, m.Weight),
		scales:  wrap[S](l, m.Scales),
		packing: ops.Quantization{GroupSize: m.Packing.GroupSize, Bits: m.Packing.Bits},
	}
	for _, mode := range []ops.Mode{ops.ModeMXFP4, ops.ModeNVFP4, ops.ModeMXFP8} {
		if m.Packing.Mode == mode.String() {
			q.packing.Mode = mode
		}
	}
	if q.packing.Mode == ops.ModeAffine {
		q.biases = wrap[S](l, m.Biases)
	}
	return &quantizedEmbedding[T, S]{q}
}

// finish waits until the device has the weights.
func (l *loader[T]) finish() error {
	return errors.Join(l.stream.Synchronize(context.Background()), l.stream.Close())
}
