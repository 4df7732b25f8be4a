package ops_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// A product of the rows of a prompt and its residual have the bits of both ops one after the other, also in rows with
// infinities. Where tensor cores compute ranges of columns of the product, what adds these up adds the residual.
func TestFusedPromptResidual(t *testing.T) {
	const rows, k, n = 70, 1024, 64
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), q: ops.Quantization{GroupSize: 64, Bits: 4}}
		defer l.close()
		s, err := dev.NewStream()
		require.NoError(t, err)
		l.matrices = []weights{l.matrix(n, k)}
		values, err := l.floats(rows, k).Read(t.Context())
		require.NoError(t, err)
		withInfinities(values[:10*k], k)
		x, residual := keep(l, kompute.New[float32])(values, rows, k), l.floats(rows, n)
		sum := func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Add(s, l.product(s, x, 0), residual)
		}
		var out *kompute.Tensor[float32]
		region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, sum(s)) })
		require.NoError(t, err)
		require.NoError(t, region.Replay(t.Context()))
		got, err := out.Read(t.Context())
		require.NoError(t, err)
		for kernel := range dev.Stats().KernelCalls {
			if strings.HasPrefix(kernel, "quantized_matmul_join") {
				require.EqualValues(t, 1, region.Stats().FusedOps, region)
			}
		}
		sc := s.Scope()
		want, err := sum(s).Read(t.Context())
		require.NoError(t, err)
		for i := range want {
			require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "result %d: %v and %v", i, want[i], got[i])
		}
		sc.Close()
		require.NoError(t, region.Close())
		require.NoError(t, out.Close())
		require.NoError(t, s.Close())
	})
}
