package chat_test

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/modelfile"
	"github.com/kompute-go/kompute-go/llm/chat"
)

func TestNamedTemplates(t *testing.T) {
	config := []byte(`{"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"T{{ eos_token }}"}],"eos_token":"</s>","pad_token":null,"add_bos_token":true}`)
	for name, want := range map[string]string{"": "D", "default": "D", "tool_use": "T</s>"} {
		template, err := chat.LoadNamed(config, name)
		require.NoError(t, err)
		text, err := template.Render(t.Context(), nil, chat.Options{})
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	tools := chat.Options{Tools: []json.RawMessage{json.RawMessage(`{}`)}}
	for name, want := range map[string]string{"": "T</s>", "default": "D"} {
		template, err := chat.LoadNamed(config, name)
		require.NoError(t, err)
		text, err := template.Render(t.Context(), nil, tools)
		require.NoError(t, err)
		require.Equal(t, want, text)
		require.True(t, template.Writes("D"))
		require.Equal(t, name == "", template.Writes("T"))
	}
	_, err := chat.Load([]byte(`{"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"{%"}]}`))
	require.ErrorIs(t, err, chat.ErrTemplate)
	require.ErrorContains(t, err, "tool_use")
	_, err = chat.LoadNamed(config, "rag")
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	require.ErrorContains(t, err, "tool_use")

	only, err := chat.Load([]byte(`{"chat_template":[{"name":"x","template":"X"}]}`))
	require.NoError(t, err)
	text, err := only.Render(t.Context(), nil, chat.Options{})
	require.NoError(t, err)
	require.Equal(t, "X", text)
}

func TestOpen(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	template, err := chat.Open(fstest.MapFS{
		chat.TemplateFile:        file("new {{ bos_token }}\n"),
		chat.TokenizerConfigFile: file(`{"chat_template":"old","bos_token":"<s>"}`),
	})
	require.NoError(t, err)
	text, err := template.Render(t.Context(), nil, chat.Options{})
	require.NoError(t, err)
	require.Equal(t, "new <s>", text)

	template, err = chat.Open(fstest.MapFS{
		chat.TemplateFile:        file("plain"),
		chat.ToolTemplateFile:    file("{{ bos_token }}{{ tools|length }}"),
		chat.TokenizerConfigFile: file(`{"bos_token":"<s>"}`),
	})
	require.NoError(t, err)
	text, err = template.Render(t.Context(), nil, chat.Options{Tools: []json.RawMessage{json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.Equal(t, "<s>1", text)

	for name, c := range map[string]struct {
		files fstest.MapFS
		err   error
	}{
		"nothing":         {fstest.MapFS{}, chat.ErrNoTemplate},
		"null":            {fstest.MapFS{chat.TokenizerConfigFile: file(`{"chat_template":null}`)}, chat.ErrNoTemplate},
		"empty list":      {fstest.MapFS{chat.TokenizerConfigFile: file(`{"chat_template":[]}`)}, chat.ErrNoTemplate},
		"number":          {fstest.MapFS{chat.TokenizerConfigFile: file(`{"chat_template":7}`)}, chat.ErrFormat},
		"nameless":        {fstest.MapFS{chat.TokenizerConfigFile: file(`{"chat_template":[{"template":"x"}]}`)}, chat.ErrFormat},
		"same name":       {fstest.MapFS{chat.TokenizerConfigFile: file(`{"chat_template":[{"name":"a","template":"x"},{"name":"a","template":"y"}]}`)}, chat.ErrFormat},
		"not JSON":        {fstest.MapFS{chat.TokenizerConfigFile: file(`{`)}, chat.ErrFormat},
		"not UTF-8":       {fstest.MapFS{chat.TokenizerConfigFile: file("{\"a\":\"\xff\"}")}, chat.ErrFormat},
		"template not":    {fstest.MapFS{chat.TemplateFile: file("\xff")}, chat.ErrTemplate},
		"template broken": {fstest.MapFS{chat.TemplateFile: file("{% if %}")}, chat.ErrTemplate},
		"tools not UTF-8": {fstest.MapFS{chat.TemplateFile: file("x"), chat.ToolTemplateFile: file("\xff")}, chat.ErrTemplate},
		"tools a folder":  {fstest.MapFS{chat.TemplateFile: file("x"), chat.ToolTemplateFile + "/x": file("x")}, modelfile.ErrNotPlain},
		"config broken":   {fstest.MapFS{chat.TemplateFile: file("x"), chat.TokenizerConfigFile: file("[")}, chat.ErrFormat},
	} {
		_, err := chat.Open(c.files)
		require.ErrorIs(t, err, c.err, name)
		require.NotEmpty(t, err.Error())
	}
}

// FuzzTokenizerConfig: any tokenizer_config.json is refused or loaded.
func FuzzTokenizerConfig(f *testing.F) {
	f.Add([]byte(`{"chat_template":"x{{ bos_token }}","bos_token":{"content":"<s>"}}`))
	f.Add([]byte(`{"chat_template":[{"name":"default","template":"D"}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		template, err := chat.Load(data)
		if err == nil {
			_, _ = template.Render(t.Context(), nil, chat.Options{})
		}
	})
}
