package kompute

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestViewsMoveNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x := tensor(t, d, upTo(24), 2, 3, 4)
		y := closing(t, x.Transpose(0, 2, 1))
		require.Equal(t, []int{2, 4, 3}, y.Shape())
		require.Equal(t, []int{12, 1, 4}, y.Strides())
		require.Equal(t, 2, y.Dim(0))
		require.Equal(t, 3, y.Dim(-1))
		z := closing(t, closing(t, y.Slice(1, 1, 3)).SliceStep(2, 0, 3, 2))
		require.Equal(t, []float32{1, 9, 2, 10, 13, 21, 14, 22}, read(t, z))
		b := closing(t, closing(t, closing(t, x.Slice(2, 0, 1)).Squeeze(2)).ExpandDims(1))
		b = closing(t, b.Broadcast(2, 2, 3))
		require.Equal(t, []float32{0, 4, 8, 0, 4, 8, 12, 16, 20, 12, 16, 20}, read(t, b))
		require.Equal(t, 1, d.Stats().LiveTensors)
		require.Equal(t, "float32[2 4 3]", y.String())
	})
}

func TestRefusedViewsCarryTheirReasonToTheStream(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(6), 2, 3)
	for name, y := range map[string]*Tensor[float32]{
		"reshape": x.Reshape(4), "transpose": x.Transpose(0, 0), "slice": x.Slice(0, 1, 3),
		"broadcast": x.Broadcast(2, 4), "expand_dims": x.ExpandDims(5), "squeeze": x.Squeeze(0),
	} {
		require.ErrorIs(t, y.Err(), ErrShape, name)
		var op *OpError
		require.ErrorAs(t, y.Err(), &op)
		require.Equal(t, name, op.Op)
		require.Equal(t, [][]int{{2, 3}}, op.Shapes)
		require.NotEmpty(t, op.Reason)
		require.Equal(t, y.Err(), y.Reshape(1).Err(), "the first reason stays")
		require.Contains(t, y.String(), "failed tensor")
		require.NoError(t, y.Close())

		s := newStream(t, d)
		out := run(s, "neg", x)
		s.Enqueue(Op{Name: "neg", Args: []Arg{In(y.View()), Out(out.View())}, CPU: testOps["neg"]})
		require.Equal(t, y.Err(), s.Err())
		_, err := out.Read(bg)
		require.Equal(t, y.Err(), err)
		require.NoError(t, out.Close())
	}
}

// A layout that exceeds its storage is refused by everything that uses its elements.
func TestLayoutsOutsideTheirStorage(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x := tensor(t, d, upTo(6), 2, 3)
		for _, l := range []Layout{
			{Shape: []int{2}, Strides: []int{1}, Offset: 5}, {Shape: []int{1}, Strides: []int{1}, Offset: math.MaxInt/2 + 1}, {Shape: []int{1}, Strides: []int{-1}, Offset: -1},
		} {
			y, err := As[float32](x.View().WithLayout(l))
			require.NoError(t, err)
			_, err = y.Read(bg)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorIs(t, y.Write(bg, make([]float32, y.Size())), ErrInvalid)
			s := newStream(t, d)
			_, err = y.ReadAsync(s).Wait(bg)
			require.ErrorIs(t, err, ErrInvalid)
			require.NoError(t, s.Err())
			closing(t, run(s, "neg", y))
			require.ErrorIs(t, s.Err(), ErrInvalid)
		}
		const many = math.MaxInt / 4
		for _, l := range []Layout{
			{Shape: []int{2, 3}, Strides: []int{1}}, {Shape: []int{-1}, Strides: []int{1}},
			{Shape: make([]int, MaxRank+1), Strides: make([]int, MaxRank+1)},
			{Shape: []int{many, many}, Strides: []int{0, 0}}, {Shape: []int{many}, Strides: []int{many}},
			{Shape: []int{many}, Strides: []int{math.MinInt}}, {Shape: []int{2, 2}, Strides: []int{math.MaxInt/2 + 1, math.MaxInt/2 + 1}},
			{Shape: []int{2, 3}, Strides: []int{3, -1}, Offset: 2}, {Shape: []int{2}, Strides: []int{-5}, Offset: math.MinInt + 1}, {Shape: []int{2}, Strides: []int{5}, Offset: math.MaxInt},
			{Shape: []int{}, Strides: []int{}, Offset: math.MaxInt}, {Shape: []int{2}, Strides: []int{1}, Offset: math.MaxInt - 1},
		} {
			require.ErrorIs(t, x.View().WithLayout(l).Err(), ErrShape, l)
		}
		require.Equal(t, upTo(6), read(t, x))
	})
}

// A stride that is never taken may be negative.
func TestNegativeStridesOfShortAxes(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x := tensor(t, d, upTo(4))
		for n, want := range [][]float32{{}, {0, -1, -2, -3}} {
			v := x.View().WithLayout(Layout{Shape: []int{n, 4}, Strides: []int{-4, 1}})
			require.NoError(t, v.Err())
			y, err := As[float32](v)
			require.NoError(t, err)
			s := newStream(t, d)
			require.Equal(t, want, read(t, closing(t, run(s, "neg", closing(t, y)))))
			require.NoError(t, s.Err())
		}
	})
}

// A view of few bytes can have more elements than there is memory for.
func TestReadingAHugeBroadcast(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		huge := closing(t, tensor(t, d, upTo(1)).Broadcast(math.MaxInt/2))
		_, err := huge.Read(bg)
		require.ErrorIs(t, err, ErrTooLarge)
		s := newStream(t, d)
		_, err = huge.ReadAsync(s).Wait(bg)
		require.ErrorIs(t, err, ErrTooLarge)
		require.NoError(t, s.Err())
		some := closing(t, tensor(t, d, upTo(1)).Broadcast(3, 2))
		require.Equal(t, make([]float32, 6), read(t, some))
	})
}

func TestReadAndWriteCheckTheirLengths(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(6), 2, 3)
	require.ErrorIs(t, x.ReadInto(bg, make([]float32, 5)), ErrShape)
	require.ErrorIs(t, x.Write(bg, upTo(7)), ErrShape)
	wide := closing(t, closing(t, x.Slice(1, 0, 1)).Broadcast(2, 3))
	require.ErrorIs(t, wide.Write(bg, upTo(6)), ErrShape)
}

// modelView is a view in its simplest form: the index of each element.
type modelView struct {
	shape  []int
	places []int
}

// at returns the flat index of an element, in row-major order.
func (m modelView) at(index []int) int {
	flat := 0
	for i, d := range m.shape {
		flat = flat*d + index[i]
	}
	return flat
}

// pick makes a view whose element (i…) is m's element from(i…).
func (m modelView) pick(shape []int, from func(index []int) []int) modelView {
	out := modelView{shape: shape}
	n := 1
	for _, d := range shape {
		n *= d
	}
	for flat := range n {
		index, rest := make([]int, len(shape)), flat
		for i := len(shape) - 1; i >= 0; i-- {
			index[i], rest = rest%shape[i], rest/shape[i]
		}
		out.places = append(out.places, m.places[m.at(from(index))])
	}
	return out
}

// drawView applies a random view operation to a tensor and to its model.
func drawView(rt *rapid.T, x *Tensor[float32], m modelView) (*Tensor[float32], modelView) {
	rank := len(m.shape)
	axis := func() int { return rapid.IntRange(0, rank-1).Draw(rt, "axis") }
	switch op := rapid.SampledFrom([]string{"transpose", "slice", "broadcast", "expand", "flatten"}).Draw(rt, "op"); {
	case op == "transpose" && rank > 0:
		axes := rapid.Permutation(upToInts(rank)).Draw(rt, "axes")
		shape := make([]int, rank)
		for i, a := range axes {
			shape[i] = m.shape[a]
		}
		return x.Transpose(axes...), m.pick(shape, func(index []int) []int {
			from := make([]int, rank)
			for i, a := range axes {
				from[a] = index[i]
			}
			return from
		})
	case op == "slice" && rank > 0:
		a := axis()
		start := rapid.IntRange(0, m.shape[a]).Draw(rt, "start")
		stop := rapid.IntRange(start, m.shape[a]).Draw(rt, "stop")
		step := rapid.IntRange(1, 3).Draw(rt, "step")
		shape := slices.Clone(m.shape)
		shape[a] = (stop - start + step - 1) / step
		return x.SliceStep(a, start, stop, step), m.pick(shape, func(index []int) []int {
			from := slices.Clone(index)
			from[a] = start + step*index[a]
			return from
		})
	case op == "broadcast" && rank < 5:
		shape := append([]int{rapid.IntRange(0, 3).Draw(rt, "front")}, m.shape...)
		return x.Broadcast(shape...), m.pick(shape, func(index []int) []int { return index[1:] })
	case op == "expand" && rank < 6:
		at := rapid.IntRange(0, rank).Draw(rt, "at")
		shape := slices.Insert(slices.Clone(m.shape), at, 1)
		return x.ExpandDims(at), m.pick(shape, func(index []int) []int {
			return slices.Delete(slices.Clone(index), at, at+1)
		})
	case op == "flatten":
		y := x.Reshape(-1)
		if y.Err() != nil || len(m.places) == 0 {
			_ = y.Close()
			return x, m
		}
		return y, modelView{shape: []int{len(m.places)}, places: m.places}
	}
	return x, m
}

func upToInts(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Through any chain of views, a read returns what the model says, and a write
// changes those elements and no others.
func TestChainsOfViewsReadAndWrite(t *testing.T) {
	d := openTest(t, "cpu")
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 4).Draw(rt, "shape")
		base, err := Zeros[float32](d, shape...)
		require.NoError(rt, err)
		data := upTo(base.Size())
		require.NoError(rt, base.Write(bg, data))
		views := []*Tensor[float32]{base}
		defer func() {
			for _, v := range views {
				_ = v.Close()
			}
		}()
		x, m := base, modelView{shape: shape, places: upToInts(len(data))}
		for range rapid.IntRange(0, 5).Draw(rt, "views") {
			x, m = drawView(rt, x, m)
			require.NoError(rt, x.Err())
			require.Equal(rt, append([]int{}, m.shape...), append([]int{}, x.Shape()...))
			views = append(views, x)
		}
		for i, v := range read(t, x) {
			require.Equal(rt, data[m.places[i]], v)
		}
		if overlaps(x.v.layout) {
			return
		}
		fresh := make([]float32, x.Size())
		for i, p := range m.places {
			fresh[i] = -float32(i)
			data[p] = fresh[i]
		}
		require.NoError(rt, x.Write(bg, fresh))
		require.Equal(rt, data, read(t, base))
	})
	require.Zero(t, d.Stats().LiveTensors)
}

// Errors of what the host does with a tensor name the operation and the tensor.
func TestErrorsOfTheHostNameTheTensor(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		v, err := Wrap(d, DTypeUint8, []byte{1, 2}, nil, 2)
		require.NoError(t, err)
		w, err := As[uint8](v)
		require.NoError(t, err)
		require.EqualError(t, w.Write(bg, []uint8{3, 4}), "write uint8[2]: wrapped memory is read-only: invalid argument")
		require.NoError(t, w.Close())
		_, err = w.Read(bg)
		require.EqualError(t, err, "read uint8[2]: the tensor is closed")
		_, err = w.ReadAsync(newStream(t, d)).Wait(bg)
		require.EqualError(t, err, "read uint8[2]: the tensor is closed")
		require.EqualError(t, w.Reshape(1, 2).Err(), "reshape uint8[2]: the tensor is closed")
		m, err := NewMapped[float32](d, 3)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		require.EqualError(t, m.Peek(make([]float32, 3), 0), "peek float32[3]: the tensor is closed")
	})
}
