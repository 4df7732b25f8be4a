package ops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// productCase makes the rows of a product from x and from y, which is like it.
type productCase struct {
	name  string
	exact bool // whether the fused op gives the same bits
	rows  func(s *kompute.Stream, l *layer[float32], x, y *kompute.Tensor[float32]) *kompute.Tensor[float32]
}

var productCases = []productCase{
	{"residual", true, func(_ *kompute.Stream, _ *layer[float32], x, _ *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		return x
	}},
	{"norm", false, func(s *kompute.Stream, _ *layer[float32], x, _ *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		return ops.RMSNorm(s, x, nil, 1e-6)
	}},
	{"norm with a gain", false, func(s *kompute.Stream, l *layer[float32], x, _ *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		return ops.RMSNorm(s, x, l.gains[0], 1e-6)
	}},
	{"gated", false, func(s *kompute.Stream, _ *layer[float32], x, y *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		return ops.SiLUMul(s, x, y)
	}},
}

// What makes the rows of a product, the product, and the sum of it and a residual give what these ops give one after the
// other, also in rows with infinities. They are one op for a row on the CPU, and for many rows where tensor cores compute
// ranges of columns of the product.
func TestFusedProducts(t *testing.T) {
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, size := range testmodel.Some(dev, []struct{ rows, k int }{{70, 1024}, {1, 1024}, {70, 9216}}...) {
			fusedProducts(t, dev, size.rows, size.k)
		}
	})
}

func fusedProducts(t *testing.T, dev *kompute.Device, rows, k int) {
	const n = 64
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), q: ops.Quantization{GroupSize: 64, Bits: 4}}
	s, err := dev.NewStream()
	require.NoError(t, err)
	l.matrices, l.gains = []weights{l.matrix(n, k)}, []*kompute.Tensor[float32]{l.floats(k)}
	values, err := l.floats(rows, 2*k).Read(t.Context())
	require.NoError(t, err)
	if rows > 10 {
		withInfinities(values[:20*k], 2*k)
	}
	both, residual := keep(l, kompute.New[float32])(values, rows, 2*k), l.floats(rows, n)
	x, y := both.Slice(1, 0, k), both.Slice(1, k, 2*k)
	l.open = append(l.open, x, y)
	onCPU := dev.Backend() == "cpu"
	for _, c := range productCases {
		t.Run(fmt.Sprintf("%dx%d/%s", rows, k, c.name), func(t *testing.T) {
			region := requireFused(t, s, c.exact || onCPU, func(s *kompute.Stream) *kompute.Tensor[float32] {
				return ops.Add(s, l.product(s, c.rows(s, l, x, y), 0), residual)
			})
			byMatrices := rows > 64 && slices.ContainsFunc(dev.Kernels(), func(v kompute.KernelVariant) bool {
				return v.Kernel == "quantized_matmul_coopmat" && v.State == kompute.KernelUsable
			})
			if byMatrices || onCPU && rows == 1 {
				require.EqualValues(t, 1, region.FusedOps)
			}
		})
	}
	require.NoError(t, s.Close())
	l.close()
}

// requireFused compares the results of a region and of single ops.
func requireFused(t *testing.T, s *kompute.Stream, exact bool, op func(*kompute.Stream) *kompute.Tensor[float32]) kompute.RegionStats {
	var out *kompute.Tensor[float32]
	region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, op(s)) })
	require.NoError(t, err)
	require.NoError(t, region.Replay(t.Context()))
	got, err := out.Read(t.Context())
	require.NoError(t, err)
	sc := s.Scope()
	want, err := op(s).Read(t.Context())
	require.NoError(t, err)
	for i, v := range want {
		apart := math.Abs(float64(v - got[i]))
		same := math.Float32bits(v) == math.Float32bits(got[i]) || v != v && got[i] != got[i]
		require.True(t, same || !exact && apart < 1e-4, "result %d is %v, not %v", i, got[i], v)
	}
	sc.Close()
	stats := region.Stats()
	require.NoError(t, region.Close())
	require.NoError(t, out.Close())
	return stats
}
