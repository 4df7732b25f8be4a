package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The mean of more elements than float32 has whole numbers for is within a millionth:
// neither their sum nor their count loses what is added last.
func TestMeanOfManyElements(t *testing.T) {
	const n = 1<<24 + 5
	numbers := map[string]func(rng *rand.Rand) float32{
		"equal":   func(*rand.Rand) float32 { return 0.1 },
		"uniform": func(rng *rand.Rand) float32 { return rng.Float32() },
	}
	for _, device := range specs(t) {
		dev, err := kompute.Open(device)
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		for name, number := range numbers {
			rng, data, sum := rand.New(rand.NewPCG(1, 2)), make([]float32, n), 0.0
			for i := range data {
				data[i] = number(rng)
				sum += float64(data[i])
			}
			x, err := kompute.New(dev, data, n)
			require.NoError(t, err)
			mean := ops.Mean(s, x)
			got, err := mean.Read(t.Context())
			require.NoError(t, err)
			want := sum / n
			require.LessOrEqual(t, math.Abs(float64(got[0])-want), 1e-6*want, "%s numbers on %s", name, device)
			require.NoError(t, mean.Close())
			require.NoError(t, x.Close())
		}
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close())
	}
}
