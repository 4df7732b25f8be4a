package generate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// openAgain opens the device once more, with statistics of its own. The caller closes it.
func openAgain(t *testing.T, d *kompute.Device, opts ...kompute.Option) *kompute.Device {
	t.Helper()
	info := d.Info()
	spec := "cpu"
	if info.Backend != "cpu" {
		spec = fmt.Sprintf("%s:%d", info.Backend, info.Index)
	}
	again, err := kompute.Open(spec, opts...)
	require.NoError(t, err)
	return again
}

// A prompt for which there is no memory at once is read in smaller pieces, and followed by the same tokens.
func TestPromptInLittleMemory(t *testing.T) {
	f := openDemo(t)
	prompt := longPrompt(t, f, 60)
	// answer returns the tokens, how many bytes were taken before and at most, and the size of pieces if that was reduced.
	answer := func(d *kompute.Device) (ids []int, before, peak int64, limit int) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		s, err := NewSession(m, f.Tokenizer, 100)
		require.NoError(t, err)
		before = d.Stats().LiveBytes
		for range 2 {
			forget(t, s)
			r, err := s.Generate(t.Context(), prompt, Options{MaxTokens: 4})
			require.NoError(t, err)
			ids = r.IDs
		}
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
		return ids, before, d.Stats().PeakBytes, s.pieceLimit
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		ample := openAgain(t, d)
		want, before, peak, limit := answer(ample)
		require.Zero(t, limit)
		require.NoError(t, ample.Close())
		little := openAgain(t, d, kompute.WithMemoryBudget(before+(peak-before)*2/5))
		got, _, _, limit := answer(little)
		require.Positive(t, limit)
		require.Equal(t, want, got)
		require.NoError(t, little.Close())
	})
}

// A layer's results are freed with it, so a prompt takes hardly more memory in a model of many layers.
func TestPromptOfManyLayers(t *testing.T) {
	f := openDemo(t)
	prompt := longPrompt(t, f, 200)
	testmodel.EachDevice(t, func(t *testing.T, shared *kompute.Device) {
		d := openAgain(t, shared, kompute.WithStrict())
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		s, err := NewSession(m, f.Tokenizer, 256)
		require.NoError(t, err)
		before := d.Stats()
		_, err = s.Generate(t.Context(), prompt, Options{MaxTokens: 1})
		require.NoError(t, err)
		layer := 4 * int64(len(prompt)) * (8*256 + 4*512 + 4*768) // what one has, roughly
		require.Less(t, d.Stats().PeakBytes-before.LiveBytes, 2*layer)
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
		require.Zero(t, d.Stats().LiveTensors)
		require.NoError(t, d.Close())
	})
}

// failingOnce is a model whose first pass fails.
type failingOnce struct {
	model.Model
	err error
}

func (m *failingOnce) Forward(s *kompute.Stream, p model.Pass) *kompute.Tensor[float32] {
	if err := m.err; err != nil {
		m.err = nil
		return kompute.Failed[float32](s, err)
	}
	return m.Model.Forward(s, p)
}

// After a generation that failed, the session computes the next one from the start.
func TestSessionAfterAnError(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		failing := &failingOnce{Model: m}
		s, err := NewSession(failing, f.Tokenizer, 100)
		require.NoError(t, err)
		for _, cause := range []error{nil, kompute.ErrShape, nil, kompute.ErrOutOfMemory} {
			failing.err = cause
			forget(t, s)
			r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 4})
			if cause == kompute.ErrShape {
				require.ErrorIs(t, err, cause)
				continue
			}
			require.NoError(t, err, "without memory it tries again")
			require.Equal(t, cases[0].GeneratedIDs[:4], r.IDs)
		}
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	})
}

// Fallbacks are those on all streams of a generation.
func TestFallbacksAreAddedUp(t *testing.T) {
	of := func(n int) kompute.StreamStats {
		return kompute.StreamStats{Fallbacks: map[string]map[string]int{"sdpa": {"shape": n}, "rope": {"type": 2}}}
	}
	sum := map[string]map[string]int{}
	countFallbacks(sum, of(1), of(4))
	countFallbacks(sum, kompute.StreamStats{}, of(5))
	require.Equal(t, map[string]map[string]int{"sdpa": {"shape": 8}, "rope": {"type": 2}}, sum)
}
