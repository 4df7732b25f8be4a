package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// BenchmarkHost measures the host's time for a step of 32 requests.
func BenchmarkHost(b *testing.B) {
	const clients, tokens = 32, 256
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(b, err)
	defer folder.Close()
	dev, err := kompute.Open("auto")
	require.NoError(b, err)
	defer dev.Close()
	m, err := model.Load(b.Context(), dev, folder.Checkpoint, model.Options{})
	require.NoError(b, err)
	defer m.Close()
	e, err := engine.New(m, folder.Tokenizer, engine.Config{Sequences: clients, Context: 2 * tokens})
	require.NoError(b, err)
	defer e.Close(b.Context())
	ask := func() {
		var streams []*engine.Stream
		for i := range clients {
			s, err := e.Submit(b.Context(), engine.Request{Prompt: []int{1, 2, i}, MaxTokens: tokens})
			require.NoError(b, err)
			streams = append(streams, s)
		}
		done := make(chan error)
		for _, s := range streams {
			go func() {
				var failed error
				for _, err := range s.Tokens() {
					failed = err
				}
				done <- failed
			}()
		}
		for range streams {
			require.NoError(b, <-done)
		}
	}
	ask() // captures the steps
	before := e.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		ask()
	}
	after := e.Stats()
	steps := float64(after.Steps - before.Steps)
	b.ReportMetric(float64((after.HostTime-before.HostTime).Microseconds())/steps, "host-µs/step")
	b.ReportMetric(b.Elapsed().Seconds()*1e6/steps, "µs/step")
}
