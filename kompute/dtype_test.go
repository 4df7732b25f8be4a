package kompute_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

func TestDTypesAndTheirGoTypes(t *testing.T) {
	for _, c := range []struct {
		got, want kompute.DType
		name      string
		bytes     int
	}{
		{kompute.DTypeOf[float32](), kompute.DTypeFloat32, "float32", 4},
		{kompute.DTypeOf[kompute.Float16](), kompute.DTypeFloat16, "float16", 2},
		{kompute.DTypeOf[kompute.BFloat16](), kompute.DTypeBFloat16, "bfloat16", 2},
		{kompute.DTypeOf[int32](), kompute.DTypeInt32, "int32", 4},
		{kompute.DTypeOf[uint32](), kompute.DTypeUint32, "uint32", 4},
		{kompute.DTypeOf[bool](), kompute.DTypeBool, "bool", 1},
		{kompute.DTypeOf[uint8](), kompute.DTypeUint8, "uint8", 1},
	} {
		require.Equal(t, c.want, c.got, c.name)
		require.Equal(t, c.name, c.got.String())
		require.Equal(t, c.bytes, c.got.Size(), c.name)
	}
}

func TestNumbersOfSixteenBits(t *testing.T) {
	require.Equal(t, kompute.Float16(0x3c00), kompute.Float16FromFloat32(1))
	require.Equal(t, kompute.BFloat16(0x3f80), kompute.BFloat16FromFloat32(1))
	require.Equal(t, float32(math.Inf(1)), kompute.Float16FromFloat32(1e5).Float32())
}

func TestHostArrays(t *testing.T) {
	a, err := kompute.ArrayOf([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	require.Equal(t, kompute.DTypeInt32, a.DType)
	require.Equal(t, []int32{1, 2, 3, 4, 5, 6}, kompute.StorageOf[int32](a))
	a.Layout, err = a.Transpose()
	require.NoError(t, err)
	require.Equal(t, kompute.Layout{Shape: []int{3, 2}, Strides: []int{1, 3}}, a.Layout)

	zeros, err := kompute.NewArray(kompute.DTypeFloat16, 2, 2)
	require.NoError(t, err)
	require.Equal(t, make([]kompute.Float16, 4), kompute.StorageOf[kompute.Float16](zeros))
	l, err := kompute.ContiguousLayout(2, 2)
	require.NoError(t, err)
	require.Equal(t, l, zeros.Layout)

	_, err = kompute.ArrayOf([]int32{1}, 2)
	require.ErrorIs(t, err, kompute.ErrLayout)
	_, err = kompute.NewArray(kompute.DType(0), 2)
	require.ErrorIs(t, err, kompute.ErrLayout)
	_, err = kompute.ContiguousLayout(make([]int, kompute.MaxRank+1)...)
	require.ErrorIs(t, err, kompute.ErrLayout)
}
