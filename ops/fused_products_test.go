package ops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// productRows make the rows of a product from x and from y, which is like it.
func productRows[T kompute.Float](l *layer[T]) map[string]func(s *kompute.Stream, x, y *kompute.Tensor[T]) *kompute.Tensor[T] {
	return map[string]func(s *kompute.Stream, x, y *kompute.Tensor[T]) *kompute.Tensor[T]{
		"as they are": func(_ *kompute.Stream, x, _ *kompute.Tensor[T]) *kompute.Tensor[T] { return x },
		"normed": func(s *kompute.Stream, x, _ *kompute.Tensor[T]) *kompute.Tensor[T] {
			return ops.RMSNorm(s, x, nil, 1e-6)
		},
		"normed with a gain": func(s *kompute.Stream, x, _ *kompute.Tensor[T]) *kompute.Tensor[T] {
			return ops.RMSNorm(s, x, l.gains[0], 1e-6)
		},
		"gated": func(s *kompute.Stream, x, y *kompute.Tensor[T]) *kompute.Tensor[T] { return ops.SiLUMul(s, x, y) },
	}
}

// productSize is a size of such a product; odd: x and y begin where no four elements are one load.
type productSize struct {
	rows, k, group int
	odd            bool
}

// What makes the rows of a product, the product, and the sum of it and a residual give what these ops give one after the
// other, also in rows with infinities. They are one op for a row on the CPU, and for many rows where tensor cores compute
// ranges of columns of the product.
func TestFusedProducts(t *testing.T) {
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, size := range testmodel.Some(dev, []productSize{{70, 1024, 64, false}, {1, 1024, 128, false}, {70, 1024, 32, true}, {70, 9216, 128, false}}...) {
			fusedProducts[float32](t, dev, size)
			if size.k == 1024 {
				fusedProducts[array.BF16](t, dev, size)
				fusedProducts[array.F16](t, dev, size)
			}
		}
	})
}

func fusedProducts[T kompute.Float](t *testing.T, dev *kompute.Device, size productSize) {
	rows, k := size.rows, size.k
	const n = 64
	l := &layer[T]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), q: ops.Quantization{GroupSize: size.group, Bits: 4}}
	s, err := dev.NewStream()
	require.NoError(t, err)
	l.matrices, l.gains = []weights{l.matrix(n, k)}, []*kompute.Tensor[T]{l.floats(k)}
	first, width := 0, 2*k
	if size.odd {
		first, width = 1, 2*k+3
	}
	values, err := l.floats(rows, width).Read(t.Context())
	require.NoError(t, err)
	if x, is := any(values).([]float32); is && rows > 10 {
		withInfinities(x[:10*width], width)
	}
	both, residual := keep(l, kompute.New[T])(values, rows, width), l.floats(rows, n)
	x, y := both.Slice(1, first, first+k), both.Slice(1, width-k, width)
	l.open = append(l.open, x, y)
	onCPU := dev.Backend() == "cpu"
	oneOp := onCPU && rows == 1 || rows > 64 && slices.ContainsFunc(dev.Kernels(), func(v kompute.KernelVariant) bool {
		return v.Kernel == "quantized_matmul_coopmat" && v.State == kompute.KernelUsable
	})
	for name, makeRows := range productRows(l) {
		t.Run(fmt.Sprintf("%v %v %s", size, array.DTypeOf[T](), name), func(t *testing.T) {
			exact := onCPU || name == "as they are" && array.DTypeOf[T]() == array.Float32
			region := requireFused(t, s, exact, func(s *kompute.Stream) *kompute.Tensor[T] {
				return ops.Add(s, l.product(s, makeRows(s, x, y), 0), residual)
			})
			if oneOp {
				require.EqualValues(t, 1, region.FusedOps)
			}
		})
	}
	require.NoError(t, s.Close())
	l.close()
}

// requireFused compares the results of a region and of single ops.
func requireFused[T kompute.Float](t *testing.T, s *kompute.Stream, exact bool, op func(*kompute.Stream) *kompute.Tensor[T]) kompute.RegionStats {
	var out *kompute.Tensor[T]
	region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, op(s)) })
	require.NoError(t, err)
	require.NoError(t, region.Replay(t.Context()))
	got, err := out.Read(t.Context())
	require.NoError(t, err)
	sc := s.Scope()
	want, err := op(s).Read(t.Context())
	require.NoError(t, err)
	bound := map[array.DType]float64{array.Float32: 1e-4, array.Float16: 1e-2, array.BFloat16: 5e-2}[array.DTypeOf[T]()]
	for i, v := range want {
		a, b := wide(v), wide(got[i])
		same := a == b || a != a && b != b
		require.True(t, same || !exact && math.Abs(a-b) < bound*max(1, math.Abs(a)), "result %d is %v, not %v", i, b, a)
	}
	sc.Close()
	stats := region.Stats()
	require.NoError(t, region.Close())
	require.NoError(t, out.Close())
	return stats
}
