package model_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// A model without a head, as Qwen3-Embedding-8B, embeds. It does not generate: a session
// and an engine's requests fail with the name of the tensor.
func TestHeadless(t *testing.T) {
	spec := testmodel.Small()
	spec.Tied, spec.Headless, spec.Bare = false, true, true
	c, weights := spec.Open(t)
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name) // for its tokenizer
	require.NoError(t, err)
	defer folder.Close()
	ids := []int{5, 17, 94, 0, 3}
	states := spec.States(weights, testmodel.Unsigned(ids))
	var want []float32
	for _, v := range states[len(states)-1] {
		want = append(want, float32(v))
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := model.Load(t.Context(), d, c, model.Options{DType: array.Float32})
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		requireNoHead(t, m.Head())

		e, err := engine.New(m, folder.Tokenizer, engine.Config{Sequences: 2, Context: 64})
		require.NoError(t, err)
		embed := func() {
			got, err := e.Embed(t.Context(), engine.EmbedRequest{Inputs: [][]int{ids}, Raw: true})
			require.NoError(t, err)
			testmodel.RequireClose(t, want, got[0], 1e-4, "embedding")
		}
		require.NoError(t, e.WarmUp(t.Context()))
		built := d.Stats().PipelinesBuilt
		embed()
		require.Equal(t, built, d.Stats().PipelinesBuilt, "the embedding's kernels were there")
		_, err = e.Submit(t.Context(), engine.Request{Prompt: ids, MaxTokens: 3})
		requireNoHead(t, err)
		_, err = e.SubmitChoices(t.Context(), engine.Request{Prompt: ids, MaxTokens: 3}, 2)
		requireNoHead(t, err)
		embed()
		require.NoError(t, e.Close(t.Context()))

		for _, eager := range []bool{false, true} {
			s, err := generate.NewSession(m, folder.Tokenizer, 64)
			require.NoError(t, err)
			_, err = s.Generate(t.Context(), ids, generate.Options{MaxTokens: 3, Eager: eager})
			requireNoHead(t, err)
			_ = s.Close() // repeats the error
		}
	}, kompute.WithStrict()) // a device of its own, which has built no kernel for others
}

func requireNoHead(t *testing.T, err error) {
	t.Helper()
	var missing *checkpoint.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "lm_head.weight", missing.Tensor)
}

// The decoder itself refuses, too.
func TestHeadlessDecoder(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	s, err := d.NewStream()
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, (&nn.Decoder[float32]{}).Logits(s, nil).Err(), kompute.ErrInvalid)
}

// Without tie_word_embeddings the logits use what there is: lm_head, or else the embedding.
func TestTiesByDefault(t *testing.T) {
	ids := []uint32{5, 17, 94}
	for _, tied := range []bool{true, false} {
		spec := testmodel.Small()
		spec.Tied = tied
		dir := t.TempDir()
		want := slices.Concat(spec.Logits(spec.Write(t, dir), ids)...)
		c := changedIn(t, dir, object{"tie_word_embeddings": nil})
		testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
			f := testmodel.NewFixture(t, d, c, model.Options{}, 8)
			defer f.Close()
			require.NoError(t, f.Model.Head())
			got := f.Logits(model.AllRows, ids...)
			require.Len(t, got, len(want))
			require.InDeltaSlice(t, want, widened(got), 1e-3)
		})
	}
}

func widened(x []float32) (out []float64) {
	for _, v := range x {
		out = append(out, float64(v))
	}
	return out
}
