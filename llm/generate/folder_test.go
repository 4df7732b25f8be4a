package generate

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// changedDemo writes the demo model to a folder, with fields of its files replaced; nil removes a field.
func changedDemo(t *testing.T, changes map[string]map[string]any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	require.NoError(t, os.CopyFS(dir, demomodel.FS()))
	for file, fields := range changes {
		data, err := fs.ReadFile(demomodel.FS(), file)
		require.NoError(t, err)
		all := map[string]any{}
		require.NoError(t, json.Unmarshal(data, &all))
		for name, value := range fields {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		data, err = json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
	}
	return dir
}

// withoutEOS removes the ids that end a text, and replaces fields of tokenizer_config.json.
func withoutEOS(t *testing.T, config map[string]any) string {
	t.Helper()
	return changedDemo(t, map[string]map[string]any{
		checkpoint.ConfigFile:          {"eos_token_id": nil},
		checkpoint.GenerationFile:      {"eos_token_id": nil},
		checkpoint.TokenizerConfigFile: config,
	})
}

// Where no file gives the id, the token of tokenizer_config.json ends an answer.
func TestEOSOfTheTokenizerConfig(t *testing.T) {
	dir := withoutEOS(t, nil)
	require.NoError(t, os.Remove(filepath.Join(dir, checkpoint.GenerationFile)))
	f, err := Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []int{2045}, f.EOS())
	cases, _ := testmodel.Goldens(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{EOS: f.EOS()})
		require.NoError(t, err)
		require.Equal(t, cases[0].GeneratedIDs, r.IDs)
		require.Equal(t, FinishStop, r.Finish)
	})

	for want, config := range map[int]map[string]any{
		2043: {"eos_token": map[string]any{"content": "<|endoftext|>"}},
		0:    {"eos_token": nil},
	} {
		f, err := Open(withoutEOS(t, config))
		require.NoError(t, err)
		require.Equal(t, want == 0, len(f.EOS()) == 0)
		if want > 0 {
			require.Equal(t, []int{want}, f.EOS())
		}
		require.NoError(t, f.Close())
	}
}

// Ids in the other files come first, even where the token is not known.
func TestEOSOfOtherFilesComesFirst(t *testing.T) {
	for _, file := range []string{checkpoint.ConfigFile, checkpoint.GenerationFile} {
		changes := map[string]map[string]any{
			checkpoint.ConfigFile: {"eos_token_id": nil}, checkpoint.GenerationFile: {"eos_token_id": nil},
			checkpoint.TokenizerConfigFile: {"eos_token": "<unknown>"},
		}
		changes[file]["eos_token_id"] = 7
		f, err := Open(changedDemo(t, changes))
		require.NoError(t, err)
		require.Equal(t, []int{7}, f.EOS())
		require.NoError(t, f.Close())
	}
}

// Tokens of tokenizer_config.json alone are added, and an error names that file.
func TestTokenizerConfigOfAFolder(t *testing.T) {
	added := func(id, content string) map[string]any {
		return map[string]any{"added_tokens_decoder": map[string]any{id: map[string]any{"content": content, "special": true}}}
	}
	f, err := Open(withoutEOS(t, added("300", "Hello<there>")))
	require.NoError(t, err)
	_, known := f.Tokenizer.ID("Hello<there>")
	require.False(t, known, "the vocabulary has the id")
	require.NoError(t, f.Close())
	f, err = Open(withoutEOS(t, added("2048", "<there>")))
	require.NoError(t, err)
	defer f.Close()
	ids, err := f.EncodeText(t.Context(), "<there>")
	require.NoError(t, err)
	require.Equal(t, []int{2048}, ids)
	require.True(t, f.Tokenizer.IsSpecial(2048))

	beyond := added("2048", "<there>")
	beyond["eos_token"] = "<there>"
	for _, config := range []map[string]any{{"eos_token": "<unknown>"}, beyond} {
		f, err := Open(withoutEOS(t, config))
		require.NoError(t, err)
		require.Empty(t, f.EOS())
		require.NoError(t, f.Close())
	}
	_, err = Open(withoutEOS(t, map[string]any{"eos_token": 5}))
	require.ErrorIs(t, err, tokenizer.ErrFormat)
	require.ErrorContains(t, err, "/"+checkpoint.TokenizerConfigFile+": ")
	require.ErrorContains(t, err, "eos_token: neither")
}
