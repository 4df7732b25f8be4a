package optest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSliceUpdateOf[T kompute.Element](c *call) *kompute.View {
	return ops.SliceUpdate(c.s, tensor[T](c, "dst"), tensor[T](c, "update"), c.starts()...).View()
}

func runSliceUpdate(c *call) *kompute.View {
	return byElement(c.dtype("dst"), runSliceUpdateOf[float32], runSliceUpdateOf[array.F16], runSliceUpdateOf[array.BF16],
		runSliceUpdateOf[int32], runSliceUpdateOf[uint32], runSliceUpdateOf[bool], runSliceUpdateOf[uint8])(c)
}

func referenceSliceUpdate(c *Case) []float64 {
	dst := compact(c.In["dst"])
	region := dst.Layout
	for axis, n := range c.In["update"].Shape {
		start := 0
		if a, given := c.In["start"]; given {
			start = min(max(int(floats(a)[axis]), 0), region.Shape[axis]-n)
		} else if len(c.Params.Start) > 0 {
			start = c.Params.Start[axis]
		}
		region = must(region.Slice(axis, start, start+n, 1))
	}
	update, set, i := floats(c.In["update"]), setter(dst), 0
	walk(region, func(at int) {
		set(at, update[i])
		i++
	})
	return floats(dst)
}

func sliceUpdateCases() []Case {
	var cases []Case
	add := func(label string, dst, update array.Array, start []float64) {
		at := make([]int, len(start))
		for i, v := range start {
			at[i] = int(v)
		}
		fits := true
		for i := range at {
			fits = fits && at[i] >= 0 && at[i] <= dst.Shape[i]-update.Shape[i]
		}
		if fits {
			cases = append(cases, Case{Name: name(dst.DType, label+"/host", nil), Params: Params{Start: at}, In: map[string]array.Array{"dst": dst, "update": update}})
		}
		if len(start) > 0 {
			cases = append(cases, Case{
				Name: name(dst.DType, label+"/device", nil),
				In:   map[string]array.Array{"dst": dst, "update": update, "start": dense(array.Int32, start, len(start))},
			})
		}
	}
	for _, dtype := range elementTypes {
		r := newSource(30)
		add("cache", r.numbers(dtype, 1, 2, 50, 33), r.numbers(dtype, 1, 2, 3, 33), []float64{0, 0, 17, 0})
		add("inner", r.numbers(dtype, 5, 7, 9), r.numbers(dtype, 2, 3, 4), []float64{3, 1, 5})
		add("clamped", r.numbers(dtype, 5, 7, 9), r.numbers(dtype, 2, 3, 4), []float64{-3, 100, 2147483647})
		add("bytes", r.numbers(dtype, 31), r.numbers(dtype, 5), []float64{7})
		add("whole", r.numbers(dtype, 3, 5), r.numbers(dtype, 3, 5), []float64{0, 0})
		add("rank 0", r.numbers(dtype), r.numbers(dtype), nil)
		add("rank 6", r.numbers(dtype, 3, 4, 3, 5, 3, 4), r.numbers(dtype, 2, 3, 2, 4, 2, 3), []float64{1, 1, 0, 1, 1, 1})
		add("rank 8", r.numbers(dtype, 2, 3, 2, 3, 2, 3, 2, 3), r.numbers(dtype, 1, 2, 1, 2, 1, 2, 1, 2), []float64{1, 0, 1, 1, 0, 1, 1, 0})
		add("empty", r.numbers(dtype, 3, 5), r.numbers(dtype, 0, 5), []float64{1, 0})
		for _, how := range layouts {
			add(how, place(r.numbers(dtype, 4, 6, 7), how), place(r.numbers(dtype, 2, 6, 3), how), []float64{1, 0, 4})
		}
		cases = append(cases, Case{Name: name(dtype, "from 0", nil), In: map[string]array.Array{"dst": r.numbers(dtype, 4, 5), "update": r.numbers(dtype, 2, 2)}})
	}
	return cases
}

func randomSliceUpdate(t *rapid.T) Case {
	r, dtype := drawSource(t), drawType(t, "type", elementTypes)
	shape := drawShape(t, "dst", 0, 6, 3000)
	part, start := make([]int, len(shape)), make([]int, len(shape))
	for i, n := range shape {
		part[i] = rapid.IntRange(0, n).Draw(t, "update")
		start[i] = rapid.IntRange(0, n-part[i]).Draw(t, "start")
	}
	dst := place(r.numbers(dtype, shape...), rapid.SampledFrom(layouts).Draw(t, "dst layout"))
	c := Case{In: map[string]array.Array{"dst": dst, "update": drawLayout(t, "update", r.numbers(dtype, part...))}}
	if rapid.Bool().Draw(t, "on device") {
		at := r.integers(array.Int32, -5, 70, len(shape))
		c.In["start"] = drawLayout(t, "start", at)
	} else {
		c.Params.Start = start
	}
	return c
}

// sliceUpdateAround checks that nothing but the view's elements changes, and that
// the view, the base and other views of it agree.
func sliceUpdateAround(t *testing.T, dev *kompute.Device) {
	ctx := context.Background()
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	data := make([]array.F16, 7*9+3)
	for i := range data {
		data[i] = array.F16FromFloat32(float32(i))
	}
	base, err := kompute.New(dev, data, len(data))
	require.NoError(t, err)
	defer base.Close()
	scope := s.Scope()
	defer scope.Close()
	flat := own(t, base.Slice(0, 3, len(data)))
	grid := own(t, flat.Reshape(7, 9))
	odd := own(t, grid.SliceStep(1, 1, 8, 2))
	view := own(t, odd.Transpose()) // [4, 7]: columns 1, 3, 5 and 7
	update, err := kompute.New(dev, []array.F16{0xf000, 0xf001, 0xf002, 0xf003}, 2, 2)
	require.NoError(t, err)
	defer update.Close()
	ops.SliceUpdate(s, view, update, ops.At(1), ops.At(5))
	for i, at := range []int{3 + 5*9 + 3, 3 + 6*9 + 3, 3 + 5*9 + 5, 3 + 6*9 + 5} {
		data[at] = array.F16(0xf000 + i)
	}
	got, err := base.Read(ctx)
	require.NoError(t, err)
	require.Equal(t, data, got)
	rows := own(t, view.Slice(0, 1, 3))
	part, err := own(t, rows.Slice(1, 5, 7)).Read(ctx)
	require.NoError(t, err)
	require.Equal(t, []array.F16{0xf000, 0xf001, 0xf002, 0xf003}, part)
	// Parts of one storage that do not meet may be source and destination.
	left, right := own(t, grid.Slice(1, 0, 4)), own(t, grid.Slice(1, 5, 9))
	ops.SliceUpdate(s, left, right)
	want, err := right.Read(ctx)
	require.NoError(t, err)
	moved, err := left.Read(ctx)
	require.NoError(t, err)
	require.Equal(t, want, moved)
}

// sliceUpdateAlong: axes that the update has whole are independent.
func sliceUpdateAlong(c *Case, axis int) map[string]int {
	if c.In["update"].Shape[axis] != c.In["dst"].Shape[axis] {
		return nil
	}
	return map[string]int{"dst": axis, "update": axis}
}

func sliceUpdateSuite() suite {
	return suite{
		op: "slice_update", run: runSliceUpdate, reference: referenceSliceUpdate, cases: sliceUpdateCases, draw: randomSliceUpdate,
		exact:    func(*Case) bool { return true },
		optional: []string{"start"},
		extra:    sliceUpdateAround,
		along:    sliceUpdateAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"dst": blank(dtype, size), "update": blank(dtype, size/2)}, Params: Params{Start: []int{size / 4}}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{In: map[string]array.Array{
				"dst": r.normal(array.Float32, 1, 4, 5), "update": r.normal(array.Float32, 1, 2, 2),
				"start": dense(array.Int32, []float64{1, 1}, 2),
			}}
		},
		rejects: sliceUpdateRejects(),
	}
}

func sliceUpdateRejects() []reject {
	update := func(dst, part []int, start ...ops.Position) func(e *env) error {
		return func(e *env) error { return ops.SliceUpdate(e.s, e.f32(dst...), e.f32(part...), start...).Err() }
	}
	within := func(f func(e *env, x *kompute.Tensor[float32]) *kompute.Tensor[float32]) func(e *env) error {
		return func(e *env) error { return f(e, e.f32(6, 8)).Err() }
	}
	return []reject{
		{"rank", kompute.ErrShape, update([]int{4, 5}, []int{5})},
		{"larger", kompute.ErrShape, update([]int{4, 5}, []int{2, 6})},
		{"starts", kompute.ErrShape, update([]int{4, 5}, []int{2, 2}, ops.At(0))},
		{"negative start", kompute.ErrInvalid, update([]int{4, 5}, []int{2, 2}, ops.At(-1), ops.At(0))},
		{"start beyond", kompute.ErrInvalid, update([]int{4, 5}, []int{2, 2}, ops.At(0), ops.At(4))},
		{"mixed starts", kompute.ErrInvalid, func(e *env) error {
			return ops.SliceUpdate(e.s, e.f32(4, 5), e.f32(2, 2), ops.At(0), ops.AtDevice(e.i32(1))).Err()
		}},
		{"nil start", kompute.ErrInvalid, update([]int{4, 5}, []int{2, 2}, ops.AtDevice(nil))},
		{"device start", kompute.ErrShape, func(e *env) error {
			return ops.SliceUpdate(e.s, e.f32(4, 5), e.f32(2, 2), ops.AtDevice(e.i32(3))).Err()
		}},
		{"repeated dst", kompute.ErrInvalid, func(e *env) error {
			return ops.SliceUpdate(e.s, e.repeated(4, 5), e.f32(2, 2)).Err()
		}},
		{"itself", kompute.ErrInvalid, within(func(e *env, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			return ops.SliceUpdate(e.s, x, x)
		})},
		{"overlap", kompute.ErrInvalid, within(func(e *env, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			return ops.SliceUpdate(e.s, x, own(e.t, x.Slice(0, 2, 4)), ops.At(3), ops.At(0))
		})},
		{"transposed", kompute.ErrInvalid, within(func(e *env, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			square := own(e.t, x.Slice(1, 0, 6))
			return ops.SliceUpdate(e.s, square, own(e.t, square.Transpose()))
		})},
		{"overlap somewhere", kompute.ErrInvalid, within(func(e *env, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			return ops.SliceUpdate(e.s, x, own(e.t, x.Slice(0, 2, 4)), ops.AtDevice(e.i32(2)))
		})},
	}
}
