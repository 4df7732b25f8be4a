package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThoughts(t *testing.T) {
	for _, pieces := range [][]string{
		{"a<think>b</think>c"}, {"a<th", "ink>b</thi", "nk>c"}, strings.Split("a<think>b</think>c", ""),
	} {
		var plain, coloured strings.Builder
		collect := func(b *strings.Builder) func(string) error {
			return func(s string) error { b.WriteString(s); return nil }
		}
		for b, s := range map[*strings.Builder]style{&plain: {}, &coloured: {colours: true}} {
			th := &thoughts{style: s, write: collect(b)}
			for _, piece := range pieces {
				require.NoError(t, th.add(piece))
			}
			require.NoError(t, th.end())
		}
		require.Equal(t, "a<think>b</think>c", plain.String())
		text := strings.ReplaceAll(coloured.String(), "\x1b[0m\x1b[2m", "")
		require.Equal(t, "a\x1b[2m<think>b</think>\x1b[0mc", text)
	}
	var b strings.Builder
	th := &thoughts{style: style{colours: true}, write: func(s string) error { b.WriteString(s); return nil }}
	require.NoError(t, th.add("1 <"))
	require.NoError(t, th.end())
	require.Equal(t, "1 <", b.String(), "what looked like a tag is not lost")
	th.write = func(string) error { return errClosed }
	require.ErrorIs(t, th.add("<think>x"), errClosed)
}

// An answer that is cut within its thoughts is not taken for an answer later.
func TestUnfinishedThoughts(t *testing.T) {
	for answer, want := range map[string]string{
		"<think>\nHm":            "<think>\nHm\n</think>\n\n",
		"<think>\nHm</think>Yes": "<think>\nHm</think>Yes",
		"The tag <think> is":     "The tag <think> is",
	} {
		require.Equal(t, want, closeThoughts(answer, false))
	}
	dir := copyDemo(t)
	edit(t, dir, "tokenizer_config.json", func(f map[string]any) {
		f["chat_template"] = f["chat_template"].(string) + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}"
	})
	c, stdout, _ := conversationWith(t, dir, 3)
	c.style.colours = true
	require.NoError(t, c.answer(t.Context(), "Hi what is your name"))
	require.True(t, strings.HasPrefix(stdout.String(), "\x1b[2m"), "thoughts are dim: %q", stdout)
	require.Len(t, c.messages, 2)
	require.Regexp(t, "(?s)^[^<]+\n</think>\n\n$", c.messages[1].Content)
}
