package ops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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
	rows, k, group, bits int
	odd                  bool
}

// What makes the rows of a product, the product, and the sum of it and a residual give what these ops give one after the
// other, also in rows with infinities, and on every device nearly the same. They are one op for a row on the CPU, and for
// many rows with the kernels of GPUs.
func TestFusedProducts(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	seen := make(map[string][]float64)
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, size := range testmodel.Some(dev, []productSize{
			{70, 1088, 64, 4, false}, {1, 1024, 128, 4, false}, {70, 1024, 32, 4, true}, {70, 9216, 128, 4, false}, {70, 1024, 128, 8, true}, {70, 1088, 64, 5, false}, {70, 1088, 64, 8, false}, {1, 1024, 64, 8, false}, {70, 1024, 128, 6, false}, {70, 1024, 128, 3, true}, {70, 1088, 64, 2, false}}...) {
			fusedProducts[float32](t, dev, size, seen, "")
			if size.k < 9216 {
				bfloat16, float16 := "", ""
				if compiled(dev) {
					bfloat16, float16 = "normed with a gain", "gated"
				}
				fusedProducts[array.BF16](t, dev, size, seen, bfloat16)
				fusedProducts[array.F16](t, dev, size, seen, float16)
			}
		}
	})
}

// compiled reports whether nearly all of a test's time goes into compiling kernels for the CPU.
func compiled(dev *kompute.Device) bool {
	return dev.Backend() == "vulkan" && dev.Info().Type == "cpu" && !testmodel.Whole
}

// byBytes reports whether the device multiplies many rows by quantized_matmul_bytes_coopmat.
func (size productSize) byBytes(dev *kompute.Device) bool {
	return size.rows > 64 && size.group >= 64 && size.group <= 8*dev.Info().SubgroupSize && hasKernel(dev, "quantized_matmul_bytes_coopmat")
}

func hasKernel(dev *kompute.Device, name string) bool {
	return slices.ContainsFunc(dev.Kernels(), func(v kompute.KernelVariant) bool {
		return v.Kernel == name && v.State == kompute.KernelUsable
	})
}

func bytesCalls(dev *kompute.Device) (calls uint64) {
	for variant, n := range dev.Stats().KernelCalls {
		if strings.HasPrefix(variant, "quantized_matmul_bytes_coopmat.") {
			calls += n
		}
	}
	return calls
}

// fusedProducts adds the products that it has seen, or compares them with those of another device. only: of rows made
// in that one way, if not empty.
func fusedProducts[T kompute.Float](t *testing.T, dev *kompute.Device, size productSize, seen map[string][]float64, only string) {
	rows, k := size.rows, size.k
	const n = 132
	l := &layer[T]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), q: ops.Quantization{GroupSize: size.group, Bits: size.bits}}
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
	dtype := array.DTypeOf[T]()
	byBytes := size.byBytes(dev)
	oneOp := onCPU && rows == 1 || byBytes || rows > 64 && hasKernel(dev, "quantized_matmul_coopmat")
	for name, makeRows := range productRows(l) {
		if only != "" && name != only {
			continue
		}
		key := fmt.Sprintf("%v %v %s", size, dtype, name)
		t.Run(key, func(t *testing.T) {
			calls := bytesCalls(dev)
			region, got := requireFused(t, s, onCPU || name == "as they are" && dtype == array.Float32, func(s *kompute.Stream) *kompute.Tensor[T] {
				return ops.Add(s, l.product(s, makeRows(s, x, y), 0), residual)
			})
			if oneOp {
				require.EqualValues(t, 1, region.FusedOps)
			}
			if byBytes {
				require.EqualValues(t, 2, bytesCalls(dev)-calls, "fused, and the product by itself")
			}
			if seen[key] == nil {
				seen[key] = got
			}
			requireWithin(t, dtype, seen[key], got)
		})
	}
	require.NoError(t, s.Close())
	l.close()
}

// Codes may begin at any word of a tensor, whatever a kernel reads at once.
func TestProductsOfCodesAnywhere(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	const k, n = 256, 40
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, c := range testmodel.Some(dev, []struct{ rows, bits int }{{1, 4}, {1, 8}, {20, 8}, {20, 4}, {70, 8}, {20, 6}, {70, 4}}...) {
			rows, bits := c.rows, c.bits
			l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(2, 2)), q: ops.Quantization{GroupSize: 64, Bits: bits}}
			s, err := dev.NewStream()
			require.NoError(t, err)
			sc := s.Scope()
			w := l.matrix(n, k)
			words, err := w.w.Read(t.Context())
			require.NoError(t, err)
			x := l.floats(rows, k)
			want, err := ops.QuantizedMatMul(s, x, w.w, w.scales, w.biases, l.q, ops.Transposed).Read(t.Context())
			require.NoError(t, err)
			for offset := 1; offset < 4; offset++ {
				flat := keep(l, kompute.New[uint32])(append(make([]uint32, offset), words...), offset+len(words))
				part := flat.Slice(0, offset, offset+len(words))
				moved := part.Reshape(n, k*bits/32)
				l.open = append(l.open, part, moved)
				got, err := ops.QuantizedMatMul(s, x, moved, w.scales, w.biases, l.q, ops.Transposed).Read(t.Context())
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			sc.Close()
			require.NoError(t, s.Close())
			l.close()
		}
	})
}

// requireFused compares the results of a region and of single ops, and returns them.
func requireFused[T kompute.Float](t *testing.T, s *kompute.Stream, exact bool, op func(*kompute.Stream) *kompute.Tensor[T]) (kompute.RegionStats, []float64) {
	var out *kompute.Tensor[T]
	region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, op(s)) })
	require.NoError(t, err)
	require.NoError(t, region.Replay(t.Context()))
	got, err := out.Read(t.Context())
	require.NoError(t, err)
	sc := s.Scope()
	want, err := op(s).Read(t.Context())
	require.NoError(t, err)
	sc.Close()
	if exact {
		requireWithin(t, array.Bool, wideAll(want), wideAll(got))
	}
	requireWithin(t, array.DTypeOf[T](), wideAll(want), wideAll(got))
	stats := region.Stats()
	require.NoError(t, region.Close())
	require.NoError(t, out.Close())
	return stats, wideAll(got)
}

func wideAll[T kompute.Float](values []T) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = wide(v)
	}
	return out
}

// requireWithin compares numbers that were rounded to the element type; of one that is not a float, exactly.
func requireWithin(t *testing.T, dtype array.DType, want, got []float64) {
	t.Helper()
	bound := map[array.DType]float64{array.Float32: 1e-4, array.Float16: 1e-2, array.BFloat16: 5e-2}[dtype]
	for i, a := range want {
		b := got[i]
		same := a == b || a != a && b != b
		require.True(t, same || math.Abs(a-b) < bound*max(1, math.Abs(a)), "result %d is %v, not %v", i, b, a)
	}
}
