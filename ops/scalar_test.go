package ops_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// half is an element type whose next number above has the next bits.
type half interface {
	array.F16 | array.BF16
	Float32() float32
}

// scalarLike returns what ScalarLike makes of v.
func scalarLike[T kompute.Number](t require.TestingT, s *kompute.Stream, v float64) T {
	scalar := ops.ScalarLike[T](s, nil, v)
	defer scalar.Close()
	got, err := scalar.Read(context.Background())
	require.NoError(t, err)
	return got[0]
}

// checkScalar checks that numbers next to the middle of a number and the one above it are
// rounded to the nearer, and the middle to the even one.
func checkScalar[T interface {
	half
	kompute.Number
}](t *testing.T, s *kompute.Stream, infinity uint16) {
	rapid.Check(t, func(r *rapid.T) {
		low := T(rapid.Uint16Max(infinity-2).Draw(r, "bits"))
		sign := rapid.SampledFrom([]float64{1, -1}).Draw(r, "sign")
		middle := (float64(low.Float32()) + float64((low + 1).Float32())) / 2
		for _, c := range []struct {
			v    float64
			want T
		}{
			{float64(low.Float32()), low}, {math.Nextafter(middle, 0), low}, {middle, low + low&1}, {math.Nextafter(middle, math.Inf(1)), low + 1},
		} {
			got := scalarLike[T](r, s, sign*c.v)
			require.Equal(r, sign*float64(c.want.Float32()), float64(got.Float32()), "%v", sign*c.v)
		}
	})
	for _, v := range []float64{0, math.Inf(1), math.Inf(-1)} {
		require.Equal(t, v, float64(scalarLike[T](t, s, v).Float32()))
	}
	require.Equal(t, math.Inf(1), float64(scalarLike[T](t, s, 1e300).Float32()))
	require.Zero(t, scalarLike[T](t, s, 1e-300).Float32())
	require.True(t, math.IsNaN(float64(scalarLike[T](t, s, math.NaN()).Float32())))
}

func TestScalarLikeRoundsOnce(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer dev.Close()
	s := mustStream(t, dev)
	t.Run("f16", func(t *testing.T) { checkScalar[array.F16](t, s, 0x7c00) })
	t.Run("bf16", func(t *testing.T) { checkScalar[array.BF16](t, s, 0x7f80) })
}
