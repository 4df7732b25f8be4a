package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// eachFusingLayer runs fn on every device, the CPU backend fusing too, with a layer of one 4-bit
// matrix of rows rows of 64 elements.
func eachFusingLayer(t *testing.T, rows int, fn func(t *testing.T, s *kompute.Stream, l *layer[float32])) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		s, err := dev.NewStream()
		require.NoError(t, err)
		l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), q: ops.Quantization{GroupSize: 64, Bits: 4}}
		l.matrices = []weights{l.matrix(rows, 64)}
		fn(t, s, l)
		l.close()
		require.NoError(t, s.Close())
	})
}

// Greedy fused with a product takes no token from products that are not finite.
func TestFusedGreedyOfBadProducts(t *testing.T) {
	eachFusingLayer(t, 300, func(t *testing.T, s *kompute.Stream, l *layer[float32]) {
		x := l.floats(1, 64)
		var token *kompute.Tensor[uint32]
		region, err := s.Capture(func(s *kompute.Stream) { token = kompute.Result(s, ops.Greedy(s, l.product(s, x, 0))) })
		require.NoError(t, err)
		require.EqualValues(t, 1, region.Stats().FusedOps, region)
		next := func() uint32 {
			require.NoError(t, region.Replay(t.Context()))
			id, err := token.Read(t.Context())
			require.NoError(t, err)
			return id[0]
		}
		require.Less(t, next(), uint32(300))
		for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			row := make([]float32, 64)
			row[7] = v
			require.NoError(t, x.Write(t.Context(), row))
			require.Equal(t, uint32(ops.NoToken), next(), "%v", v)
		}
		require.NoError(t, region.Close())
		require.NoError(t, token.Close())
	})
}

// A row seen as a column, whose last axis of one element has the stride of the row, and attention in which
// all keys have a weight of zero and infinite values, give what the ops give one by one.
func TestFusedViewsAndWeights(t *testing.T) {
	eachFusingLayer(t, 64, func(t *testing.T, s *kompute.Stream, l *layer[float32]) {
		x, row, square := l.floats(1, 64), l.floats(1, 64), l.floats(64, 64)
		q, k, v := l.floats(1, 2, 1, 64), l.floats(1, 1, 1, 64), l.floats(1, 1, 1, 64)
		keys, values := l.floats(1, 1, 256, 64), l.floats(1, 1, 256, 64)
		for _, one := range []struct {
			to    *kompute.Tensor[float32]
			every int
			v     float32
		}{{q, 64, 1}, {k, 64, float32(math.Inf(-1))}, {keys, 64, float32(math.Inf(-1))}, {v, 1, float32(math.Inf(1))}, {values, 1, float32(math.Inf(1))}} {
			content, err := one.to.Read(t.Context())
			require.NoError(t, err)
			for i := 0; i < len(content); i += one.every {
				content[i] = one.v
			}
			require.NoError(t, one.to.Write(t.Context(), content))
		}
		column := func(s *kompute.Stream, r *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			turned := r.Transpose(1, 0)
			defer turned.Close()
			return ops.Add(s, l.product(s, x, 0).Transpose(1, 0), turned)
		}
		for name, call := range map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
			"column": func(s *kompute.Stream) *kompute.Tensor[float32] { return column(s, row) },
			"column of a part": func(s *kompute.Stream) *kompute.Tensor[float32] {
				part := square.Slice(0, 0, 1)
				defer part.Close()
				return column(s, part)
			},
			"no weights": func(s *kompute.Stream) *kompute.Tensor[float32] {
				at := []ops.Position{ops.At(0), ops.At(0), ops.At(255), ops.At(0)}
				ops.SliceUpdate(s, keys, k, at...)
				ops.SliceUpdate(s, values, v, at...)
				return ops.SDPA(s, q, keys, values, ops.SDPAParams[float32]{Scale: 0.125})
			},
		} {
			sc := s.Scope()
			want, err := call(s).Read(t.Context())
			require.NoError(t, err)
			var out *kompute.Tensor[float32]
			region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, call(s)) })
			require.NoError(t, err)
			require.NoError(t, region.Replay(t.Context()))
			got, err := out.Read(t.Context())
			require.NoError(t, err, name)
			require.Equal(t, want, got, "%s: %v", name, region)
			require.NoError(t, region.Close())
			require.NoError(t, out.Close())
			sc.Close()
		}
	})
}

// Products of rows without columns are zeros, and the sum of one and a residual is the residual, by whatever kernel
// such rows would be multiplied if they had columns.
func TestProductsOfNoColumns(t *testing.T) {
	eachFusingLayer(t, 8, func(t *testing.T, s *kompute.Stream, l *layer[float32]) {
		l.matrices[0] = l.matrix(8, 0)
		for _, rows := range []int{1, 3, 33} {
			sc := s.Scope()
			x, residual := kompute.Constant(s, []float32{}, rows, 0), l.floats(rows, 8)
			got, err := l.product(s, x, 0).Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, make([]float32, rows*8), got, "%d rows", rows)
			want, err := residual.Read(t.Context())
			require.NoError(t, err)
			var out *kompute.Tensor[float32]
			region, err := s.Capture(func(s *kompute.Stream) {
				out = kompute.Result(s, ops.Add(s, l.product(s, ops.RMSNorm(s, x, nil, 1e-6), 0), residual))
			})
			require.NoError(t, err)
			require.NoError(t, region.Replay(t.Context()))
			got, err = out.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got, "%d rows: %v", rows, region)
			require.NoError(t, region.Close())
			require.NoError(t, out.Close())
			sc.Close()
		}
	})
}
