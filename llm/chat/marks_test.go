package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/chat"
)

// Marks that Text adds come out of a template wherever the text between them does, and do
// not count as characters.
func TestMarks(t *testing.T) {
	const begin, end = chat.MarkBegin, chat.MarkEnd
	const marked = begin + "<x>" + end
	for source, want := range map[string]string{
		"{{ m }}":                        "{'role': 'user', 'content': 'a" + marked + "'}",
		"{{ '%r' % c }}":                 "'a" + marked + "'",
		"{{ [c]|string|upper }}":         "['A" + strings.ToUpper(marked) + "']",
		"{{ m|tojson }}":                 `{"role": "user", "content": "a` + marked + `"}`,
		"{{ c|tojson(true) }}":           `"a` + marked + `"`,
		"{{ c|trim|replace('<', '[') }}": "a" + begin + "[x>" + end,
		"{{ c[1:] }} {{ c[2:] }} {{ c[:2] }} {{ c[:-1] }}":                                     marked + " x>" + end + " a" + begin + "< a" + begin + "<x",
		"{{ c[1] }}{{ c[-1] }}{{ c[::2] }}{{ c[::-1] }}":                                       begin + "<>" + end + "ax" + ">" + end + "x" + begin + "<a",
		"{{ c|list|join('|') }}{{ c|length }}":                                                 "a|" + begin + "<|x|>" + end + "4",
		"{{ '%.2s' % c }}{{ c|truncate(3, true, '', 0) }}":                                     "a" + begin + "<" + "a" + begin + "<x",
		"{{ c.find('x') }}{{ c.endswith('x>') }}{{ c[1:].startswith('<x') }}{{ c|center(6) }}": "2TrueTrue a" + marked + " ",
		"{{ c.removesuffix('>') }}{{ c[1:].removeprefix('<') }}":                               "a" + begin + "<xx>" + end,
		"{{ c|urlencode }}":       "a" + begin + "%3Cx%3E" + end,
		"{{ c|e }}":               "a" + begin + "&lt;x&gt;" + end,
		"{{ v[0].k }}{{ tools }}": marked + "['" + marked + "']",
	} {
		template, err := chat.Parse("{% set m = messages[0] %}{% set c = m.content %}" + source)
		require.NoError(t, err)
		text, err := template.Render(t.Context(), []chat.Message{{Role: "user", Content: "a<x>"}}, chat.Options{
			Text: func(role, s string) string {
				require.Equal(t, strings.Contains(s, "a<x>"), role == "user" && strings.Contains(s, "<x>"))
				return strings.ReplaceAll(s, "<x>", marked)
			},
			Tools: []json.RawMessage{[]byte(`"<x>"`)}, Variables: map[string]any{"v": []any{map[string]any{"k": "<x>"}}},
		})
		require.NoError(t, err, source)
		require.Equal(t, want, text, source)
	}
}

// Writes finds a text in the texts, the strings and the named tokens of a template.
func TestWrites(t *testing.T) {
	template, err := chat.Load([]byte(`{"chat_template":"a<b>{{ '<c>' + d }}{# <e> #}","bos_token":"<s>"}`))
	require.NoError(t, err)
	for text, want := range map[string]bool{"<b>": true, "<c>": true, "<s>": true, "<e>": false, "d": false, "<b><c>": false} {
		require.Equal(t, want, template.Writes(text), text)
	}
	require.False(t, (*chat.Template)(nil).Writes(""))
}
