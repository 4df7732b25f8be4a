package kompute

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

func roundTrip[T Element](t *testing.T, d *Device, data []T) {
	x, err := New(d, data)
	require.NoError(t, err)
	defer x.Close()
	require.Equal(t, data, read(t, x))
	require.Equal(t, array.DTypeOf[T](), x.DType())
	require.Equal(t, []int{len(data)}, x.Shape())
}

func TestNewKeepsEveryElementType(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		roundTrip(t, d, []float32{1, -2.5, float32(math.Inf(1))})
		roundTrip(t, d, []Float16{0x3c00, 0xffff, 1})
		roundTrip(t, d, []BFloat16{0x3f80, 0x8000})
		roundTrip(t, d, []int32{math.MinInt32, 0, math.MaxInt32})
		roundTrip(t, d, []uint32{0, math.MaxUint32})
		roundTrip(t, d, []bool{true, false, true})
		roundTrip(t, d, []uint8{0, 255, 7})
	})
}

func TestNewCopies(t *testing.T) {
	d := openTest(t, "cpu")
	data := upTo(4)
	x := tensor(t, d, data)
	data[0] = 100
	require.Equal(t, upTo(4), read(t, x))
}

// Data may be a part of a struct that has Go pointers, which C never sees.
func TestDataInsideStructs(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		type holder struct {
			pointer *int
			data    [3]float32
		}
		h := &holder{pointer: new(7), data: [3]float32{1, 2, 3}}
		x := tensor(t, d, h.data[:])
		require.NoError(t, x.Write(bg, h.data[:]))
		require.Equal(t, h.data[:], read(t, x))
		require.Equal(t, h.data[:], read(t, wrapped(t, d, h.data[:])))
		into := &holder{pointer: h.pointer}
		require.NoError(t, x.ReadInto(bg, into.data[:]))
		require.Equal(t, h, into)
	})
}

func TestRankZeroAndZeroSize(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		scalar := tensor(t, d, []float32{7}, []int{}...)
		require.Equal(t, []float32{7}, read(t, scalar))
		one, err := New(d, []float32{7}, 1)
		require.NoError(t, err)
		rank0 := closing(t, one.Squeeze(0))
		require.NoError(t, one.Close())
		require.Zero(t, rank0.Rank())
		require.Equal(t, 1, rank0.Size())
		require.Zero(t, rank0.Dim(0))

		s := newStream(t, d)
		empty := tensor(t, d, []float32{}, 3, 0, 2)
		require.Empty(t, read(t, empty))
		require.NoError(t, empty.Write(bg, nil))
		out := closing(t, run(s, "neg", empty))
		require.NoError(t, s.Synchronize(bg))
		require.Empty(t, read(t, out))
		require.Equal(t, []int{3, 0, 2}, out.Shape())
		require.Zero(t, d.Stats().Uploads)
	})
}

func TestConstructorsRefuse(t *testing.T) {
	d := openTest(t, "cpu")
	_, err := New(d, upTo(5), 2, 3)
	require.ErrorIs(t, err, ErrShape)
	require.ErrorContains(t, err, "new float32[2 3]: 5 elements given")
	_, err = New(d, upTo(1), -1)
	require.ErrorIs(t, err, ErrShape)
	_, err = New(d, upTo(1), 1, 1, 1, 1, 1, 1, 1, 1, 1)
	require.ErrorIs(t, err, ErrShape)
	_, err = New[float32](nil, nil, 0)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = Empty[float32](d, math.MaxInt/2)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Zeros[float32](d, math.MaxInt/8)
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.Zero(t, d.Stats().LiveTensors)

	require.ErrorIs(t, Output[float32](nil, 1).Err(), ErrInvalid)
	require.ErrorIs(t, Constant(nil, upTo(1)).Err(), ErrInvalid)
	s := newStream(t, d)
	require.ErrorIs(t, Constant(s, upTo(2)).Err(), ErrShape)
	require.ErrorIs(t, s.Err(), ErrShape)
	require.ErrorIs(t, Failed[float32](nil, nil).Err(), ErrInvalid)
}

// A device says how large a tensor may be at most.
func TestTensorsThatAreTooLarge(t *testing.T) {
	d := vulkanOrSkip(t)
	most := d.Info().MaxTensorBytes
	_, err := Empty[uint8](d, int(most)+1)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, fmt.Sprintf("%d bytes, and a tensor on %s has at most %d", most+1, d.Info().Name, most))
	require.Zero(t, d.Stats().LiveTensors)
}

func TestZerosAndEmpty(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		z, err := Zeros[float32](d, 3, 4)
		require.NoError(t, err)
		defer z.Close()
		require.Equal(t, make([]float32, 12), read(t, z))
		y := closing(t, run(s, "add", z, z))
		require.Equal(t, make([]float32, 12), read(t, y))

		large, err := Zeros[uint32](d, 3<<18) // more than there could be zeros anywhere by chance
		require.NoError(t, err)
		defer large.Close()
		require.True(t, slices.Max(read(t, large)) == 0)

		e, err := Empty[float32](d, 5)
		require.NoError(t, err)
		defer e.Close()
		require.Len(t, read(t, e), 5)
		require.NoError(t, e.Write(bg, upTo(5)))
		require.Equal(t, upTo(5), read(t, e))
	})
}

func TestWrapSharesMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		data := array.Bytes(upTo(6))
		v, err := Wrap(d, array.Float32, data, nil, 2, 3)
		require.NoError(t, err)
		defer v.Close()
		if d.Backend() == "cpu" {
			require.Same(t, unsafe.SliceData(data), unsafe.SliceData(v.st.cpu.host), "no copy")
		} else {
			require.Zero(t, d.Stats().HostBytes, "no copy")
		}
		x, err := As[float32](v)
		require.NoError(t, err)
		require.Equal(t, upTo(6), read(t, x))

		s := newStream(t, d)
		y := closing(t, run(s, "neg", x))
		require.Equal(t, []float32{0, -1, -2, -3, -4, -5}, read(t, y))
		require.NoError(t, s.Err())

		require.ErrorIs(t, x.Write(bg, upTo(6)), ErrInvalid)
		runInto(s, "neg", x, y)
		require.ErrorIs(t, s.Err(), ErrInvalid, "an op must not write to it either")
		require.Equal(t, upTo(6), read(t, x), "and it stays readable")
	})
}

func TestWrapCopiesWhatIsNotAligned(t *testing.T) {
	d := openTest(t, "cpu")
	data := append(make([]byte, 1, 64), array.Bytes(upTo(3))...)[1:]
	v, err := Wrap(d, array.Float32, data, nil, 3)
	require.NoError(t, err)
	defer v.Close()
	clear(data)
	x, err := As[float32](v)
	require.NoError(t, err)
	require.Equal(t, upTo(3), read(t, x))
}

func TestWrapRefuses(t *testing.T) {
	d := openTest(t, "cpu")
	_, err := Wrap(d, array.Float32, make([]byte, 11), nil, 3)
	require.ErrorIs(t, err, ErrShape)
	_, err = Wrap(d, 0, make([]byte, 12), nil, 3)
	require.ErrorIs(t, err, ErrDType)
	_, err = Wrap(nil, array.Float32, make([]byte, 12), nil, 3)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestWrapKeepsItsOwner(t *testing.T) {
	d := openTest(t, "cpu")
	gone := make(chan struct{})
	v := func() *View {
		owner := new([16]float32)
		runtime.AddCleanup(owner, func(c chan struct{}) { close(c) }, gone)
		v, err := Wrap(d, array.Float32, []byte{1, 2, 3, 4}[:4:4], owner, 1)
		require.NoError(t, err)
		return v
	}()
	runtime.GC()
	select {
	case <-gone:
		t.Fatal("the owner was collected while the view was open")
	default:
	}
	require.NoError(t, v.Close())
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}, waitLimit, waitStep)
	runtime.KeepAlive(v)
}

func TestAs(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(3))
	_, err := As[int32](x.View())
	require.ErrorIs(t, err, ErrDType)
	_, err = As[int32](nil)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = As[float32](Failed[float32](nil, errTest).View())
	require.ErrorIs(t, err, errTest)
	same, err := As[float32](x.View())
	require.NoError(t, err)
	require.Same(t, x, same)
}

func TestParamBytes(t *testing.T) {
	p := struct {
		A uint32
		B float32
	}{1, 1}
	got := ParamBytes(&p)
	p.A = 9
	require.Equal(t, []byte{1, 0, 0, 0, 0, 0, 0x80, 0x3f}, got)
}

func TestErrorsRead(t *testing.T) {
	err := &OpError{Op: "add", Shapes: [][]int{{2, 3}, {4}}, DTypes: []DType{array.Float32, array.Int32}, Reason: "why", Err: ErrShape}
	require.EqualError(t, err, "add float32[2 3], int32[4]: why: shapes do not fit")
	require.ErrorIs(t, err, ErrShape)
	memory := &MemoryError{Requested: 10, Available: 3}
	require.EqualError(t, memory, "out of memory: 10 bytes requested, 3 available")
	require.ErrorIs(t, memory, ErrOutOfMemory)

	for code, want := range map[int]error{
		codeUnsupported: ErrUnsupported, codeInvalid: ErrInvalid, codeOutOfMemory: ErrOutOfMemory, codeDeviceLost: ErrDeviceLost,
		codeNoVulkan: ErrNoVulkan, codeTooLarge: ErrTooLarge, codeDriver: ErrDriver, 7: ErrInternal, 99: ErrInternal,
	} {
		err := nativeError(code, nothingLost, 0, 0, "the reason")
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "the reason")
	}
	require.ErrorAs(t, nativeError(codeOutOfMemory, nothingLost, 5, 4, ""), &memory)
}

func TestZeroValuesFailWithoutPanic(t *testing.T) {
	var x Tensor[float32]
	require.ErrorIs(t, x.Err(), ErrInvalid)
	require.ErrorIs(t, x.Reshape(1).Err(), ErrInvalid)
	_, err := x.Read(bg)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, x.Write(bg, nil), ErrInvalid)
	require.NoError(t, x.Close())
	require.Nil(t, x.Device())
	require.Zero(t, x.Size())
	require.False(t, x.View().Closed())
	require.True(t, slices.Equal(x.Shape(), nil))
}
