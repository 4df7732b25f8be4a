package llama_test

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
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/llama"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// folders are the checkpoints that testdata/goldens.py made.
var folders = []string{"dense", "q4"}

// golden is one prompt and its greedy continuation, from transformers in float32.
type golden struct {
	Messages     []chat.Message
	Rendered     string
	Text         string // of a raw prompt
	PromptIDs    []int  `json:"prompt_ids"`
	GeneratedIDs []int  `json:"generated_ids"`
}

// open opens a checkpoint with its goldens.
func open(t *testing.T, name string) (*generate.Folder, []golden, *checkpoint.File) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	f, err := generate.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.Equal(t, "llama", f.Spec.Type)
	var all struct{ Cases []golden }
	readJSON(t, filepath.Join(dir, "goldens.json"), &all)
	require.NotEmpty(t, all.Cases)
	tensors, err := checkpoint.OpenFile(filepath.Join(dir, "goldens.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tensors.Close()) })
	return f, all.Cases, tensors
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// Prompts become the same tokens as in transformers: with a chat template that writes
// the BOS, from a raw text, and from a raw text that begins with a BOS.
func TestGoldenPrompts(t *testing.T) {
	for _, name := range folders {
		f, cases, _ := open(t, name)
		bos := f.Tokenizer.Prefix()
		require.Len(t, bos, 1)
		for _, c := range cases {
			encode := func() ([]int, error) { return f.EncodeText(t.Context(), c.Text) }
			if len(c.Messages) > 0 {
				text, err := f.Template.Render(t.Context(), c.Messages, chat.Options{AddGenerationPrompt: true})
				require.NoError(t, err)
				require.Equal(t, c.Rendered, text)
				encode = func() ([]int, error) { return f.EncodeChat(t.Context(), c.Messages) }
			}
			ids, err := encode()
			require.NoError(t, err)
			require.Equal(t, c.PromptIDs, ids)
			require.Equal(t, bos[0], ids[0])
			require.NotEqual(t, bos[0], ids[1], "one is enough")
		}
	}
}

// A BOS is put before a chat whose template writes none.
func TestTemplateWithoutBOS(t *testing.T) {
	f, _, _ := open(t, folders[0])
	var err error
	f.Template, err = chat.Parse("{{ messages[0].content }}")
	require.NoError(t, err)
	ids, err := f.EncodeChat(t.Context(), generate.Turn("", "Hi"))
	require.NoError(t, err)
	plain, err := f.Tokenizer.Encode("Hi")
	require.NoError(t, err)
	require.Equal(t, append(f.Tokenizer.Prefix(), plain...), ids)
}

func TestGoldenLogits(t *testing.T) {
	for _, name := range folders {
		t.Run(name, func(t *testing.T) {
			f, cases, tensors := open(t, name)
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				m := testmodel.NewFixture(t, d, f.Checkpoint, model.Options{DType: array.Float32}, 600)
				defer m.Close()
				for i, c := range cases {
					m.RequireGolden(tensors, i, c.PromptIDs, c.GeneratedIDs)
				}
			})
		})
	}
}

// Greedy output is that of transformers token for token, captured and eager, and no
// op falls back to the CPU.
func TestGoldenGreedy(t *testing.T) {
	for _, name := range folders {
		t.Run(name, func(t *testing.T) {
			f, cases, _ := open(t, name)
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				m, err := f.Load(t.Context(), d, model.Options{DType: array.Float32})
				require.NoError(t, err)
				s, err := generate.NewSession(m, f.Tokenizer, 1)
				require.NoError(t, err)
				for _, c := range cases {
					for _, eager := range []bool{false, true} {
						r, err := s.Generate(t.Context(), c.PromptIDs, generate.Options{EOS: f.EOS(), MaxTokens: len(c.GeneratedIDs), Eager: eager})
						require.NoError(t, err)
						require.Equal(t, c.GeneratedIDs, r.IDs)
						require.Equal(t, eager, s.Stats().Work.Replays == 0)
						require.Equal(t, f.Tokenizer.Decode(c.GeneratedIDs, tokenizer.SkipSpecial), r.Text)
					}
				}
				require.Empty(t, s.Stats().Fallbacks)
				require.NoError(t, s.Close())
				require.NoError(t, m.Close())
			})
		})
	}
}

// Compares the generated tokenizer, which is like Llama 3's, with Hugging Face tokenizers.
func TestGoldenTokenizer(t *testing.T) {
	f, _, _ := open(t, folders[0])
	var cases []struct {
		Text        string
		IDs         []int
		WithSpecial []int `json:"with_special"`
		Decoded     string
		Skipped     string
	}
	readJSON(t, "testdata/tokenizer_cases.json", &cases)
	require.NotEmpty(t, cases)
	for _, c := range cases {
		ids, err := f.Tokenizer.Encode(c.Text)
		require.NoError(t, err)
		require.Equal(t, c.IDs, ids, "text %q", c.Text)
		require.Equal(t, c.WithSpecial, append(f.Tokenizer.Prefix(), ids...), "text %q", c.Text)
		require.Equal(t, c.Decoded, f.Tokenizer.Decode(ids, tokenizer.KeepSpecial), "text %q", c.Text)
		require.Equal(t, c.Skipped, f.Tokenizer.Decode(ids, tokenizer.SkipSpecial), "text %q", c.Text)
	}
}

// Compares every form of checkpoint with the formulas in float64.
func TestSyntheticCheckpoints(t *testing.T) {
	with := func(change func(*testmodel.Spec)) testmodel.Spec {
		s := testmodel.Small()
		s.Type = "llama"
		change(&s)
		return s
	}
	for name, spec := range map[string]testmodel.Spec{
		"tied":             with(func(s *testmodel.Spec) {}),
		"untied":           with(func(s *testmodel.Spec) { s.Tied = false }),
		"attention biases": with(func(s *testmodel.Spec) { s.AttentionBias = true }),
		"MLP biases":       with(func(s *testmodel.Spec) { s.MLPBias = true; s.Packing = checkpoint.Packing{} }),
		"neighbours":       with(func(s *testmodel.Spec) { s.Traditional = true }),
		"linear": with(func(s *testmodel.Spec) {
			s.Scaling, s.RopeScaling = model.LinearScaling{Factor: 3}, object{"type": "linear", "factor": 3}
		}),
		"one KV head": with(func(s *testmodel.Spec) { s.Heads, s.KVHeads, s.HeadDim = 6, 1, 32 }),
	} {
		t.Run(name, func(t *testing.T) { spec.RequireReference(t, []uint32{5, 17, 94, 0, 3, 3, 60, 21, 95}) })
	}
}

type object = map[string]any

// parse reads the dense checkpoint's config.json with some fields replaced; a nil
// value removes the field.
func parse(t *testing.T, changes object) (llama.Config, error) {
	t.Helper()
	fields := object{}
	readJSON(t, "testdata/dense/config.json", &fields)
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	data, err := json.Marshal(fields)
	require.NoError(t, err)
	raw, err := checkpoint.ParseConfig("dir/config.json", data)
	require.NoError(t, err)
	return llama.ReadConfig(raw)
}

func TestConfig(t *testing.T) {
	scaling := object{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}
	want := model.Llama3Scaling{Factor: 8, LowFactor: 1, HighFactor: 4, OldContext: 64}
	c, err := parse(t, nil)
	require.NoError(t, err)
	require.Equal(t, want, c.Scaling)
	require.True(t, c.TieWordEmbeddings)
	require.False(t, c.QKVBias || c.OutBias)
	require.False(t, c.MLPBias)

	newer := maps.Clone(scaling) // as transformers 5 writes it
	newer["rope_theta"] = 5e5
	c, err = parse(t, object{"rope_theta": nil, "rope_scaling": nil, "rope_parameters": newer})
	require.NoError(t, err)
	require.Equal(t, want, c.Scaling)
	require.Equal(t, 5e5, c.RopeTheta)

	c, err = parse(t, object{"rope_scaling": nil})
	require.NoError(t, err)
	require.Nil(t, c.Scaling)

	changed := func(name string, value any) object {
		s := maps.Clone(scaling)
		if s[name] = value; value == nil {
			delete(s, name)
		}
		return object{"rope_scaling": s}
	}
	for want, changes := range map[string]object{
		"rope_scaling.factor: missing":                           changed("factor", nil),
		"rope_scaling.factor: 0.5":                               changed("factor", 0.5),
		"rope_scaling.low_freq_factor: missing":                  changed("low_freq_factor", nil),
		"rope_scaling.high_freq_factor: missing":                 changed("high_freq_factor", nil),
		"rope_scaling.high_freq_factor: 1 is not":                changed("high_freq_factor", 1),
		"rope_scaling.original_max_position_embeddings: missing": changed("original_max_position_embeddings", nil),
		"num_key_value_heads":                                    {"num_key_value_heads": 3},
		"mlp_bias":                                               {"mlp_bias": "yes"},
	} {
		_, err := parse(t, changes)
		require.ErrorIs(t, err, checkpoint.ErrConfig, want)
		require.ErrorContains(t, err, want)
	}
	for want, changes := range map[string]object{
		`RoPE scaling "dynamic" (supported: default, linear, llama3, yarn)`: changed("rope_type", "dynamic"),
		`hidden_act "gelu"`:       {"hidden_act": "gelu"},
		`RoPE scaling "longrope"`: changed("rope_type", "longrope"),
	} {
		_, err := parse(t, changes)
		require.ErrorIs(t, err, checkpoint.ErrUnsupported, want)
		require.ErrorContains(t, err, want)
	}
}

// The scaled frequencies are those of transformers.
func TestGoldenFrequencies(t *testing.T) {
	_, _, tensors := open(t, folders[0])
	c, err := parse(t, nil)
	require.NoError(t, err)
	want := testmodel.Golden(t, tensors, "inverse_frequencies")
	got := c.Scaling.Wavelengths(c.RopeTheta, c.HeadDim)
	require.Len(t, got, len(want))
	for i := range want {
		require.InEpsilon(t, 1/float64(want[i]), float64(got[i]), 1e-5, "pair %d", i)
	}
}
