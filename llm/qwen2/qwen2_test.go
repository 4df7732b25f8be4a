package qwen2_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/llama"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/qwen2"
)

// readJSON reads a file of testdata.
func readJSON(t *testing.T, into any, path ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// golden is a prompt and its greedy continuation, from transformers in float32.
type golden struct {
	Prompt    []int `json:"prompt_ids"`
	Generated []int `json:"generated_ids"`
}

// Logits are those of transformers, which testdata/goldens.py computed: for whole prompts and token by token. So are
// greedy tokens of requests in an engine, whose steps have rows of several of them.
func TestGoldenLogits(t *testing.T) {
	for _, name := range []string{"dense", "q4"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			c, err := checkpoint.Open(dir)
			require.NoError(t, err)
			defer c.Close()
			tensors, err := checkpoint.OpenFile(filepath.Join(dir, "goldens.safetensors"))
			require.NoError(t, err)
			defer tensors.Close()
			var all struct{ Cases []golden }
			readJSON(t, &all, name, "goldens.json")
			require.NotEmpty(t, all.Cases)
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				m := testmodel.NewFixture(t, d, c, model.Options{DType: array.Float32}, 200)
				defer m.Close()
				requireGreedy(t, m.Model, all.Cases)
				for i, one := range all.Cases {
					m.RequireGolden(tensors, i, one.Prompt, one.Generated)
				}
			})
		})
	}
}

func requireGreedy(t *testing.T, m model.Model, cases []golden) {
	t.Helper()
	text, err := generate.OpenFS(demomodel.FS(), demomodel.Name) // whose tokenizer makes a text of any tokens
	require.NoError(t, err)
	defer text.Close()
	e, err := engine.New(m, text.Tokenizer, engine.Config{PageTokens: 16})
	require.NoError(t, err)
	var streams []*engine.Stream
	for _, c := range cases {
		s, err := e.Submit(t.Context(), engine.Request{Prompt: c.Prompt, MaxTokens: len(c.Generated)})
		require.NoError(t, err)
		streams = append(streams, s)
	}
	for i, c := range cases {
		r, err := streams[i].Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.Generated, r.IDs)
	}
	require.NoError(t, e.Close(t.Context()))
	require.Empty(t, m.Device().Stats().Fallbacks)
}

// Compares a checkpoint without a grouping of heads, and one in another packing, with the formulas in float64.
func TestSyntheticCheckpoints(t *testing.T) {
	for name, change := range map[string]func(*testmodel.Spec){
		"as many key heads": func(s *testmodel.Spec) { s.KVHeads = s.Heads },
		"8 bits, untied":    func(s *testmodel.Spec) { s.Tied, s.Packing.Bits = false, 8 },
	} {
		t.Run(name, func(t *testing.T) {
			s := testmodel.Small()
			s.Type = "qwen2"
			change(&s)
			s.RequireReference(t, []uint32{5, 17, 94, 0, 3, 3, 60, 21, 95})
		})
	}
}

type object = map[string]any

// parse reads the dense checkpoint's config.json with some fields replaced.
func parse(t *testing.T, changes object) (llama.Config, error) {
	t.Helper()
	fields := object{}
	readJSON(t, &fields, "dense", "config.json")
	maps.Copy(fields, changes)
	data, err := json.Marshal(fields)
	require.NoError(t, err)
	raw, err := checkpoint.ParseConfig("dir/config.json", data)
	require.NoError(t, err)
	return qwen2.ReadConfig(raw)
}

func TestConfig(t *testing.T) {
	for _, changes := range []object{nil, {"attention_bias": true}, {"attention_bias": false}, {"is_causal": true}} {
		c, err := parse(t, changes)
		require.NoError(t, err)
		require.True(t, c.QKVBias)
		require.False(t, c.OutBias)
		require.Equal(t, 16, c.HeadDim)
	}
	for want, changes := range map[string]object{
		"use_sliding_window": {"use_sliding_window": true},
		"is_causal":          {"is_causal": false},
		"layer_types":        {"layer_types": []string{"sliding_attention", "full_attention"}},
	} {
		_, err := parse(t, changes)
		require.ErrorIs(t, err, checkpoint.ErrUnsupported, want)
		require.ErrorContains(t, err, want)
	}
}
