package tokenizer_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

const (
	tokenizerFile = "../demomodel/mote-4bit/tokenizer.json"
	goldensFile   = "../demomodel/mote-4bit/goldens/goldens.json"
)

// mote returns the demo model's tokenizer.
func mote(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(readFile(t, tokenizerFile))
	require.NoError(t, err)
	return tok
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

// textCase is one row of the reference files.
type textCase struct {
	Text    string
	IDs     []int
	Decoded string
}

func (c textCase) check(t *testing.T, tok *tokenizer.Tokenizer) {
	t.Helper()
	ids, err := tok.Encode(c.Text)
	require.NoError(t, err)
	require.Equal(t, c.IDs, ids, "text %q", c.Text)
	require.Equal(t, c.Decoded, tok.Decode(ids, tokenizer.KeepSpecial), "text %q", c.Text)
}

// TestGoldens compares the demo tokenizer with what transformers computed.
func TestGoldens(t *testing.T) {
	var goldens struct {
		Cases []struct {
			Rendered     string
			PromptIDs    []int `json:"prompt_ids"`
			GeneratedIDs []int `json:"generated_ids"`
			Text         string
		}
		Tokenizer []textCase
	}
	require.NoError(t, json.Unmarshal(readFile(t, goldensFile), &goldens))
	require.NotEmpty(t, goldens.Cases)
	require.NotEmpty(t, goldens.Tokenizer)
	tok := mote(t)
	for _, c := range goldens.Tokenizer {
		c.check(t, tok)
	}
	for _, c := range goldens.Cases {
		ids, err := tok.Encode(c.Rendered)
		require.NoError(t, err)
		require.Equal(t, c.PromptIDs, ids)
		require.Equal(t, c.Text, tok.Decode(c.GeneratedIDs, tokenizer.KeepSpecial))
	}
}

// TestVectors compares many texts and variants of tokenizer.json with Hugging Face
// tokenizers; testdata/vectors.py made the vectors.
func TestVectors(t *testing.T) {
	var vectors struct {
		Variants []struct {
			Name    string
			Changes map[string]json.RawMessage
			Cases   []textCase
		}
		Streams []struct {
			IDs            []int
			Decoded, Plain string
		}
	}
	require.NoError(t, json.Unmarshal(readFile(t, "testdata/vectors.json"), &vectors))
	for _, v := range vectors.Variants {
		t.Run(v.Name, func(t *testing.T) {
			tok, err := tokenizer.Load(variant(t, v.Changes))
			require.NoError(t, err)
			for _, c := range v.Cases {
				c.check(t, tok)
			}
		})
	}
	t.Run("streams", func(t *testing.T) {
		tok := mote(t)
		for _, s := range vectors.Streams {
			require.Equal(t, s.Decoded, tok.Decode(s.IDs, tokenizer.KeepSpecial), "ids %v", s.IDs)
			require.Equal(t, s.Plain, tok.Decode(s.IDs, tokenizer.SkipSpecial), "ids %v", s.IDs)
		}
	})
}

// variant applies changes to the demo tokenizer.json as vectors.py does.
func variant(t testing.TB, changes map[string]json.RawMessage) []byte {
	t.Helper()
	file := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(readFile(t, tokenizerFile), &file))
	for key, value := range changes {
		switch key {
		case "added":
			old, more := string(file["added_tokens"]), string(value)
			file["added_tokens"] = json.RawMessage(strings.TrimRight(old, "] \n") + "," + strings.TrimLeft(more, "["))
		case "ignore_merges":
			model := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal(file["model"], &model))
			model[key] = value
			file["model"] = marshal(t, model)
		default:
			file[key] = value
		}
	}
	return marshal(t, file)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}
