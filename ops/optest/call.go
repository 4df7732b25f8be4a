package optest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// call is a case whose operands are on a device.
type call struct {
	*Case
	s  *kompute.Stream
	in map[string]*kompute.View
}

// tensor returns an operand as a typed tensor, nil if it is absent.
func tensor[T kompute.Element](c *call, name string) *kompute.Tensor[T] {
	v := c.in[name]
	if v == nil {
		return nil
	}
	t, err := kompute.As[T](v)
	if err != nil {
		return kompute.Failed[T](c.s, err)
	}
	return t
}

// enqueue is an op at one element type.
type enqueue func(*call) *kompute.View

// byFloat picks the instance for a floating-point type.
func byFloat(dtype array.DType, f32, f16, bf16 enqueue) enqueue {
	switch dtype {
	case array.Float16:
		return f16
	case array.BFloat16:
		return bf16
	}
	return f32
}

// byNumber picks the instance for a type with arithmetic.
func byNumber(dtype array.DType, f32, f16, bf16, i32, u32 enqueue) enqueue {
	switch dtype {
	case array.Int32:
		return i32
	case array.Uint32:
		return u32
	}
	return byFloat(dtype, f32, f16, bf16)
}

// byElement picks the instance for any type.
func byElement(dtype array.DType, f32, f16, bf16, i32, u32, boolean, u8 enqueue) enqueue {
	switch dtype {
	case array.Bool:
		return boolean
	case array.Uint8:
		return u8
	}
	return byNumber(dtype, f32, f16, bf16, i32, u32)
}

// byScale picks the instance for a type of scales.
func byScale(dtype array.DType, f32, f16, bf16, u8 enqueue) enqueue {
	if dtype == array.Uint8 {
		return u8
	}
	return byFloat(dtype, f32, f16, bf16)
}

// quantization returns that of the case.
func (c *call) quantization() ops.Quantization {
	return ops.Quantization{GroupSize: c.Params.GroupSize, Bits: c.Params.Bits, Mode: c.Params.mode()}
}

// operands are a case's arrays on a device.
type operands struct {
	views map[string]*kompute.View
	bases []interface{ Close() error }
}

func (o *operands) close() {
	for _, b := range o.bases {
		_ = b.Close()
	}
}

// upload puts each array's whole storage on the device, and views it.
func upload(t require.TestingT, dev *kompute.Device, in map[string]array.Array) *operands {
	o := &operands{views: map[string]*kompute.View{}}
	for name, a := range in {
		o.views[name] = o.put(t, dev, a)
	}
	return o
}

func (o *operands) put(t require.TestingT, dev *kompute.Device, a array.Array) *kompute.View {
	switch a.DType {
	case array.Float32:
		return putAs[float32](t, o, dev, a)
	case array.Float16:
		return putAs[array.F16](t, o, dev, a)
	case array.BFloat16:
		return putAs[array.BF16](t, o, dev, a)
	case array.Int32:
		return putAs[int32](t, o, dev, a)
	case array.Uint32:
		return putAs[uint32](t, o, dev, a)
	case array.Bool:
		return putAs[bool](t, o, dev, a)
	default:
		return putAs[uint8](t, o, dev, a)
	}
}

func putAs[T kompute.Element](t require.TestingT, o *operands, dev *kompute.Device, a array.Array) *kompute.View {
	data := array.Storage[T](a)
	base, err := kompute.New(dev, data, len(data))
	require.NoError(t, err)
	o.bases = append(o.bases, base)
	return base.View().WithLayout(a.Layout)
}

// download reads a result into a dense host array.
func download(ctx context.Context, v *kompute.View) (array.Array, error) {
	switch v.DType() {
	case array.Float32:
		return read[float32](ctx, v)
	case array.Float16:
		return read[array.F16](ctx, v)
	case array.BFloat16:
		return read[array.BF16](ctx, v)
	case array.Int32:
		return read[int32](ctx, v)
	case array.Uint32:
		return read[uint32](ctx, v)
	case array.Bool:
		return read[bool](ctx, v)
	default:
		return read[uint8](ctx, v)
	}
}

func read[T kompute.Element](ctx context.Context, v *kompute.View) (array.Array, error) {
	t, err := kompute.As[T](v)
	if err != nil {
		return array.Array{}, err
	}
	data, err := t.Read(ctx)
	if err != nil {
		return array.Array{}, err
	}
	return array.Of(data, t.Shape()...)
}

// describe tells a case in one line.
func describe(c *Case, got array.Array) string {
	var b strings.Builder
	names := make([]string, 0, len(c.In))
	for name := range c.In {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		a := c.In[name]
		fmt.Fprintf(&b, "%s %v %v strides %v offset %d, ", name, a.DType, a.Shape, a.Strides, a.Offset)
	}
	fmt.Fprintf(&b, "params %+v", c.Params)
	if got.Present() {
		fmt.Fprintf(&b, ", result %v %v", got.DType, got.Shape)
	}
	return b.String()
}
