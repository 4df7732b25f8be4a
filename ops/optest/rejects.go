package optest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// reject is a call that an op refuses. want is what its error wraps; nil: any.
type reject struct {
	name string
	want error
	call func(e *env) error
}

// env makes the operands of such calls.
type env struct {
	t   *testing.T
	dev *kompute.Device
	s   *kompute.Stream
}

func zeros[T kompute.Element](e *env, shape []int) *kompute.Tensor[T] {
	x, err := kompute.Zeros[T](e.dev, shape...)
	require.NoError(e.t, err)
	return own(e.t, x)
}

func (e *env) f32(shape ...int) *kompute.Tensor[float32]  { return zeros[float32](e, shape) }
func (e *env) i32(shape ...int) *kompute.Tensor[int32]    { return zeros[int32](e, shape) }
func (e *env) u32(shape ...int) *kompute.Tensor[uint32]   { return zeros[uint32](e, shape) }
func (e *env) u8(shape ...int) *kompute.Tensor[uint8]     { return zeros[uint8](e, shape) }
func (e *env) boolean(shape ...int) *kompute.Tensor[bool] { return zeros[bool](e, shape) }

// repeated returns one element as a tensor of any size.
func (e *env) repeated(shape ...int) *kompute.Tensor[float32] {
	return own(e.t, e.f32().Broadcast(shape...))
}

// own closes a tensor at the end of the test.
func own[T kompute.Element](t *testing.T, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// rejected checks what the op refuses: its own table, and what every op refuses
// of each operand.
func (r *runner) rejected(t *testing.T) {
	for _, x := range r.rejects {
		t.Run(x.name, func(t *testing.T) {
			r.refuse(t, x.want, func(e *env) error { return x.call(e) })
		})
	}
	c := r.valid()
	names := make([]string, 0, len(c.In))
	for name := range c.In {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, x := range r.spoilt(name) {
			t.Run(name+" "+x.name, func(t *testing.T) {
				r.refuse(t, x.want, func(e *env) error { return r.call(e, &c, name, x.spoil) })
			})
		}
	}
	t.Run("nil stream", func(t *testing.T) {
		in := upload(t, r.dev, c.In)
		defer in.close()
		require.ErrorIs(t, r.run(&call{Case: &c, in: in.views}).Err(), kompute.ErrInvalid)
	})
}

// spoilt is a way to make a good operand unfit.
type spoilt struct {
	name  string
	want  error
	spoil func(e *env, v *kompute.View) *kompute.View
}

func (r *runner) spoilt(operand string) []spoilt {
	list := []spoilt{
		{"closed", kompute.ErrClosed, func(_ *env, v *kompute.View) *kompute.View {
			_ = v.Close()
			return v
		}},
		{"of another device", kompute.ErrDevice, func(e *env, v *kompute.View) *kompute.View {
			other := upload(e.t, r.cpu, map[string]array.Array{"": dense(v.DType(), make([]float64, v.Layout().Size()), v.Layout().Shape...)})
			e.t.Cleanup(other.close)
			return other.views[""]
		}},
		{"too large", kompute.ErrTooLarge, func(_ *env, v *kompute.View) *kompute.View {
			l := v.Layout()
			l.Offset = min(1<<32, math.MaxInt)
			return v.WithLayout(l)
		}},
	}
	if !slices.Contains(r.optional, operand) {
		list = append(list, spoilt{"nil", kompute.ErrInvalid, func(*env, *kompute.View) *kompute.View { return nil }})
	}
	return list
}

// call runs a case with one operand made unfit.
func (r *runner) call(e *env, c *Case, operand string, spoil func(*env, *kompute.View) *kompute.View) error {
	in := upload(e.t, r.dev, c.In)
	e.t.Cleanup(in.close)
	in.views[operand] = spoil(e, in.views[operand])
	return r.run(&call{Case: c, s: e.s, in: in.views}).Err()
}

// refuse checks that a call is refused with the right error, in Go, and that the
// stream has it too.
func (r *runner) refuse(t *testing.T, want error, f func(e *env) error) {
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	got := f(&env{t: t, dev: r.dev, s: s})
	require.Error(t, got)
	if want != nil {
		require.ErrorIs(t, got, want)
	}
	var op *kompute.OpError
	require.True(t, errors.As(got, &op), "%v is no OpError", got)
	require.NotEmpty(t, op.Op)
	require.NotEmpty(t, op.Reason)
	require.Equal(t, got, s.Err())
	require.Zero(t, s.Stats().Ops, "it reached the device")
}
