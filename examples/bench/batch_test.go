package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatchesAreMeasured(t *testing.T) {
	r := measure(t, "--shape", "tiny", "--device", "cpu", "--batch", "1,3", "-p", "5", "-n", "4", "-r", "2")
	require.Empty(t, r.Tests)
	require.Len(t, r.Batches, 2)
	for i, clients := range []int{1, 3} {
		b := r.Batches[i]
		require.Equal(t, []int{clients, 5, 4}, []int{b.Clients, b.Prompt, b.Tokens})
		for _, v := range []float64{b.Overall, b.Host, b.FirstP50, b.NextP50} {
			require.Positive(t, v)
		}
		require.LessOrEqual(t, b.Low, b.Rate)
		require.GreaterOrEqual(t, b.High, b.Rate)
		require.GreaterOrEqual(t, b.FirstP99, b.FirstP50)
	}
	require.Positive(t, r.Memory.Cache)
}

// The rate counts the tokens of the time in which every client gets some.
func TestBatchSummary(t *testing.T) {
	start := time.Now()
	at := func(ms ...int) (out []time.Time) {
		for _, n := range ms {
			out = append(out, start.Add(time.Duration(n)*time.Millisecond))
		}
		return out
	}
	b := summarize(start, [][]time.Time{at(10, 20, 30, 40), at(20, 30, 40, 50)}, 5, 10*time.Microsecond)
	require.InEpsilon(t, 4/0.020, b.Rate, 1e-9)
	require.InEpsilon(t, 8/0.050, b.Overall, 1e-9)
	require.InEpsilon(t, 10e6, b.Step, 1e-9)
	require.InEpsilon(t, 2000, b.Host, 1e-9)
	require.InEpsilon(t, 20e6, b.FirstP99, 1e-9)
	require.InEpsilon(t, 10e6, b.NextP50, 1e-9)
}
