package ops_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
	"github.com/kompute-go/kompute-go/ops/optest"
)

// withFragments runs test on the CPU, and on each Vulkan device that has quantized_matmul_fragments; the kernel that
// takes small products of some codes instead is disabled.
func withFragments(t *testing.T, test func(t *testing.T, dev *kompute.Device)) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			if spec == "cpu" {
				dev, err := kompute.Open(spec)
				require.NoError(t, err)
				defer func() { require.NoError(t, dev.Close()) }()
				test(t, dev)
				return
			}
			dev, err := kompute.Open(spec, kompute.WithStrict(), kompute.WithDisabled("quantized_matmul_bytes_coopmat"))
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			if !hasKernel(dev, "quantized_matmul_fragments") {
				t.Skip("no matrices in registers")
			}
			test(t, dev)
			if makesFragments(dev) {
				calls := slices.ContainsFunc(dev.Kernels(), func(k kompute.KernelVariant) bool {
					return k.Kernel == "quantized_matmul_fragments" && k.Calls > 0
				})
				require.True(t, calls)
			}
			require.Zero(t, dev.Stats().ValidationMessages)
		})
	}
}

// makesFragments reports whether the kernels that make matrices in registers must run on dev: other drivers may have
// elements of matrices elsewhere.
func makesFragments(dev *kompute.Device) bool { return strings.Contains(dev.Info().Name, "NVIDIA") }

func TestFragmentProducts(t *testing.T) { withFragments(t, optest.RunFragmentProducts) }

// These are products as in TestFusedProducts, by one workgroup for a tile, which adds the residual itself, and by several.
func TestFusedFragmentProducts(t *testing.T) {
	seen := make(map[string][]float64)
	withFragments(t, func(t *testing.T, dev *kompute.Device) {
		for _, size := range []productSize{{70, 384, 32, 4, false}, {300, 384, 32, 4, true}, {150, 1024, 128, 4, false}} {
			fusedFragmentProducts[float32](t, dev, size, seen)
			fusedFragmentProducts[array.BF16](t, dev, size, seen)
			fusedFragmentProducts[array.F16](t, dev, size, seen)
		}
	})
}

func fusedFragmentProducts[T kompute.Float](t *testing.T, dev *kompute.Device, size productSize, seen map[string][]float64) {
	const n = 132
	l := &layer[T]{t: t, dev: dev, rng: rand.New(rand.NewPCG(4, 4)), q: ops.Quantization{GroupSize: size.group, Bits: size.bits}}
	s, err := dev.NewStream()
	require.NoError(t, err)
	l.gains = []*kompute.Tensor[T]{l.floats(size.k)}
	m := l.matrix(n, size.k)
	scales, biases := rounded(l, m.scales, true), rounded(l, m.biases, false)
	first, width := 0, 2*size.k
	if size.odd {
		first, width = 1, 2*size.k+3
	}
	values, err := l.floats(size.rows, width).Read(t.Context())
	require.NoError(t, err)
	if x, is := any(values).([]float32); is {
		withInfinities(x[:10*width], width)
	}
	both, residual := keep(l, kompute.New[T])(values, size.rows, width), l.floats(size.rows, n)
	x, y := both.Slice(1, first, first+size.k), both.Slice(1, width-size.k, width)
	l.open = append(l.open, x, y)
	dtype := array.DTypeOf[T]()
	for name, makeRows := range productRows(l) {
		key := fmt.Sprintf("%v %v %s", size, dtype, name)
		t.Run(key, func(t *testing.T) {
			region, got := requireFused(t, s, false, func(s *kompute.Stream) *kompute.Tensor[T] {
				product := ops.QuantizedMatMul(s, makeRows(s, x, y), m.w, scales, biases, l.q, ops.Transposed)
				return ops.Add(s, product, residual)
			})
			if makesFragments(dev) {
				require.EqualValues(t, 1, region.FusedOps)
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

// rounded returns a tensor as bfloat16, the type of scales whose products with codes float16 holds; special: with a NaN in
// a row.
func rounded[T kompute.Float](l *layer[T], from *kompute.Tensor[float32], special bool) *kompute.Tensor[array.BF16] {
	values, err := from.Read(context.Background())
	require.NoError(l.t, err)
	out := make([]array.BF16, len(values))
	for i, v := range values {
		out[i] = array.BF16FromFloat32(v)
	}
	if special {
		out[len(out)/2] = array.BF16FromFloat32(float32(math.NaN()))
	}
	return keep(l, kompute.New[array.BF16])(out, from.Shape()...)
}
