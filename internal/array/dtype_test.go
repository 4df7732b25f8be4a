package array

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDTypes(t *testing.T) {
	for _, c := range []struct {
		dtype   DType
		of      DType
		size    int
		name    string
		isFloat bool
	}{
		{Float32, DTypeOf[float32](), 4, "float32", true},
		{Float16, DTypeOf[F16](), 2, "float16", true},
		{BFloat16, DTypeOf[BF16](), 2, "bfloat16", true},
		{Int32, DTypeOf[int32](), 4, "int32", false},
		{Uint32, DTypeOf[uint32](), 4, "uint32", false},
		{Bool, DTypeOf[bool](), 1, "bool", false},
		{Uint8, DTypeOf[uint8](), 1, "uint8", false},
	} {
		require.Equal(t, c.dtype, c.of)
		require.Equal(t, c.size, c.dtype.Size())
		require.Equal(t, c.name, c.dtype.String())
		require.Equal(t, c.isFloat, c.dtype.IsFloat())
	}
	require.Zero(t, DType(0).Size())
	require.Equal(t, "invalid", DType(0).String())
	require.Equal(t, "DType(99)", DType(99).String())
}

// Every 16-bit number survives conversion to float32 and back.
func TestNarrowFloatsRoundTrip(t *testing.T) {
	for bits := range 1 << 16 {
		h := F16(bits)
		if f := h.Float32(); f == f {
			require.Equal(t, h, F16FromFloat32(f))
		} else {
			require.Equal(t, 0x7c00, bits&0x7c00)
			back := F16FromFloat32(f).Float32()
			require.True(t, back != back)
		}
		b := BF16(bits)
		require.Equal(t, uint32(bits)<<16, math.Float32bits(b.Float32()))
		if f := b.Float32(); f == f {
			require.Equal(t, b, BF16FromFloat32(f))
		} else {
			back := BF16FromFloat32(f).Float32()
			require.True(t, back != back)
		}
	}
}

// Rounding goes to the nearer neighbour, and halfway to the even one.
func TestNarrowFloatsRoundToNearestEven(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.Uint16Range(0, 0x7bfe).Draw(rt, "half")
		lo, hi := float64(F16(h).Float32()), float64(F16(h+1).Float32())
		checkRounding(rt, lo, hi, func(f float32) float64 { return float64(F16FromFloat32(f).Float32()) }, h%2 == 0)
		b := rapid.Uint16Range(0, 0x7f7e).Draw(rt, "bfloat")
		lo, hi = float64(BF16(b).Float32()), float64(BF16(b+1).Float32())
		checkRounding(rt, lo, hi, func(f float32) float64 { return float64(BF16FromFloat32(f).Float32()) }, b%2 == 0)
	})
	require.Equal(t, BF16(0x7f80), BF16FromFloat32(math.MaxFloat32), "to infinity")
	require.Equal(t, F16(0x7c00), F16FromFloat32(65520))
	require.Equal(t, F16(0x7bff), F16FromFloat32(65519))
	require.Equal(t, BF16(0x8000), BF16FromFloat32(float32(math.Copysign(0, -1))))
	signalling := math.Float32frombits(0x7f800001)
	require.Equal(t, BF16(0x7fc0), BF16FromFloat32(signalling), "quiet, not infinite")
}

func checkRounding(rt *rapid.T, lo, hi float64, round func(float32) float64, loIsEven bool) {
	middle := lo + (hi-lo)/2
	want := hi
	if loIsEven {
		want = lo
	}
	require.Equal(rt, want, round(float32(middle)))
	require.Equal(rt, lo, round(math.Nextafter32(float32(middle), 0)))
	require.Equal(rt, hi, round(math.Nextafter32(float32(middle), math.MaxFloat32)))
}

func TestArrays(t *testing.T) {
	require.False(t, Array{}.Present())
	a, err := New(Float16, 2, 3)
	require.NoError(t, err)
	require.True(t, a.Present())
	require.Len(t, a.Data, 12)
	require.Equal(t, make([]F16, 6), Storage[F16](a))
	Storage[F16](a)[5] = 1
	require.Equal(t, byte(1), a.Data[10])

	data := []int32{1, 2, 3, 4}
	b, err := Of(data, 2, 2)
	require.NoError(t, err)
	require.Equal(t, Int32, b.DType)
	Storage[int32](b)[3] = 9
	require.Equal(t, int32(9), data[3], "no copy")
	require.Len(t, Bytes(data), 16)
	require.Empty(t, Bytes([]bool(nil)))

	empty, err := New(Float32, 0, 5)
	require.NoError(t, err)
	require.Empty(t, Storage[float32](empty))

	_, err = Of(data, 3)
	require.ErrorIs(t, err, ErrLayout)
	_, err = Of(data, -1)
	require.ErrorIs(t, err, ErrLayout)
	_, err = New(Float32, math.MaxInt)
	require.ErrorIs(t, err, ErrLayout)
	_, err = New(Float32, -1)
	require.ErrorIs(t, err, ErrLayout)
	_, err = New(0, 2)
	require.ErrorIs(t, err, ErrLayout)
}

func TestRoundToType(t *testing.T) {
	const third = float32(1) / 3
	require.Equal(t, third, Float32.Round(third))
	require.Equal(t, third, Int32.Round(third))
	require.Equal(t, float32(0.33325195), Float16.Round(third))
	require.Equal(t, float32(0.33398438), BFloat16.Round(third))
	require.Equal(t, float32(math.Inf(1)), Float16.Round(65520))
}

func TestDTypeAsText(t *testing.T) {
	for d := Float32; d <= Uint8; d++ {
		text, err := d.MarshalText()
		require.NoError(t, err)
		var back DType
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, d, back)
	}
	_, err := DType(0).MarshalText()
	require.Error(t, err)
	require.Error(t, new(DType).UnmarshalText([]byte("invalid")))
}
