package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	if r.NoProfile == "" {
		require.Len(t, r.Profiles, 4) // generating, and with prompts
		for i, clients := range []int{1, 1, 3, 3} {
			p := r.Profiles[i]
			require.Equal(t, clients, p.Clients)
			if i%2 == 0 {
				require.LessOrEqual(t, p.Rows, clients)
			} else {
				require.Equal(t, 16, p.Rows)
			}
			require.NotEmpty(t, p.Kernels)
		}
	}
}

// Two devices share the clients, and guesses ahead are counted.
func TestBatchesOfTwoDevicesAndDrafts(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("one two three four ", 20)), 0o600))
	r := measure(t, "--shape", "demo", "--device", "cpu,cpu", "--batch", "2", "-p", "24", "-n", "1000", "-r", "1", "--draft", "4", "--text", text)
	b := r.Batches[0]
	require.Positive(t, b.Rate)
	require.Positive(t, b.Drafted)
	require.Greater(t, b.Accepted, 0.1)
	require.LessOrEqual(t, b.Accepted, 1.0)
	for _, args := range [][]string{
		{"--draft", "2"}, {"--text", text}, {"--device", "cpu,cpu"},
		{"--batch", "1", "-p", "4000", "--text", text}, {"--batch", "1", "--text", text + "x"}, {"--batch", "1", "--draft", "-1"},
	} {
		require.Error(t, run(t.Context(), append([]string{"--shape", "demo", "--device", "cpu"}, args...), io.Discard, io.Discard), args)
	}
}

// Clients may ask for answers by a schema, and for log-probabilities, and so may some of them.
func TestBatchesWithASchema(t *testing.T) {
	schema := filepath.Join(t.TempDir(), "schema")
	require.NoError(t, os.WriteFile(schema, []byte(`{"type": "array", "items": {"type": "integer"}, "minItems": 30}`), 0o600))
	args := []string{"--shape", "demo", "--device", "cpu", "--batch", "2", "-p", "8", "-n", "20", "-r", "1", "--profile", "1", "--schema", schema, "--logprobs"}
	for _, more := range [][]string{nil, {"--special-clients", "1"}} {
		r := measure(t, append(args, more...)...)
		require.Positive(t, r.Batches[0].Rate)
		masked := slices.ContainsFunc(r.Profiles[0].Kernels, func(k kernel) bool { return k.Op == "mask" })
		require.True(t, masked, "the choice of tokens is a part of a step's profile")
	}
	require.NoError(t, os.WriteFile(schema, []byte("{"), 0o600))
	for _, file := range []string{schema, schema + "x"} {
		err := run(t.Context(), append(args, "--schema", file), io.Discard, io.Discard)
		require.ErrorContains(t, err, "--schema: ")
	}
}

// A step gives a client one token, and several if guesses are right.
func TestTimeOfAStep(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("one two three four ", 20)), 0o600))
	args := []string{"--shape", "demo", "--device", "cpu", "--batch", "2", "-p", "24", "-n", "400", "-r", "1", "--profile", "0", "--text", text}
	b := measure(t, args...).Batches[0]
	require.InEpsilon(t, 2, b.Rate*b.Step/1e9, 0.1)
	b = measure(t, append(args, "--draft", "4")...).Batches[0]
	require.Greater(t, b.Rate*b.Step/1e9, 2.2)
	// Devices run steps at the same time, and one may have none.
	w := stepWatch{from: []uint64{10, 20, 5}, to: []uint64{30, 60, 5}}
	require.EqualValues(t, 30, w.steps())
	require.Zero(t, (&stepWatch{}).steps())
}

// The rate counts the tokens of the period in which every client gets some.
func TestBatchSummary(t *testing.T) {
	start := time.Now()
	at := func(ms ...int) (out []time.Time) {
		for _, n := range ms {
			out = append(out, start.Add(time.Duration(n)*time.Millisecond))
		}
		return out
	}
	b := summarize(start, [][]time.Time{at(10, 20, 30, 40), at(20, 30, 40, 50)}, 4)
	require.InEpsilon(t, 4/0.020, b.Rate, 1e-9)
	require.InEpsilon(t, 8/0.050, b.Overall, 1e-9)
	require.InEpsilon(t, 5e6, b.Step, 1e-9)
	require.InEpsilon(t, 10e6, b.FirstP50, 1e-9)
	require.InEpsilon(t, 20e6, b.FirstP99, 1e-9)
	require.InEpsilon(t, 10e6, b.NextP50, 1e-9)
}

// For an even number of repetitions, the median is the mean of the middle two.
func TestMedianOfAnEvenNumber(t *testing.T) {
	require.EqualValues(t, 3, median([]float64{5, 1, 3}))
	require.EqualValues(t, 2.5, median([]float64{4, 3, 1, 2}))
	out := medians([]*batch{{Rate: 40, Step: 2e6, Overall: 90}, {Rate: 50, Step: 1e6, Overall: 100}})
	require.Equal(t, []float64{40, 45, 50, 1.5e6, 95}, []float64{out.Low, out.Rate, out.High, out.Step, out.Overall})
}

// Runs in which there was no such period have no rate, and do not change that of others.
func TestBatchesWithoutARate(t *testing.T) {
	short := &batch{Clients: 2, Overall: 100}
	out := medians([]*batch{short, {Clients: 2, Rate: 50, Step: 2e6, Overall: 90}, short})
	require.Equal(t, []float64{50, 50, 50, 2e6, 100}, []float64{out.Low, out.Rate, out.High, out.Step, out.Overall})
	out = medians([]*batch{short})
	text, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"tokens_per_second"`)
	var table strings.Builder
	require.NoError(t, printBatches(&table, []*batch{out}))
	require.Regexp(t, `\n +2 +0 +0 +- +- +- +100\.0 +- `, table.String())
}
