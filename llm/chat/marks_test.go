package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

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
		"{{ c|trim|replace('<', '[') }}": "a[x>" + end,
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

// Comparisons and searches do not see marks, wherever they are in a text.
func TestMarksInside(t *testing.T) {
	mark := strings.NewReplacer("<", chat.MarkBegin+"<"+chat.MarkEnd, ">", chat.MarkBegin+">"+chat.MarkEnd, "h", chat.MarkBegin+"h"+chat.MarkEnd)
	unmark := strings.NewReplacer(chat.MarkBegin, "", chat.MarkEnd, "")
	for _, source := range []string{
		`{{ c.startswith('<t>\n') }}{{ c.endswith('<t>') }}{{ c.startswith(('x', c)) }}{{ '<t>\n' in c }}{{ c in [c ~ ''] }}`,
		`{{ c == '<t>\nhello <t>' }}{{ c != '<t>' }}{{ '<t>\nhello <t>' == c }}{{ c < '<t>\nhello <u>' }}{{ c is sameas '<t>' }}{{ c is eq '<t>' }}`,
		`{{ {'<t>\nhello <t>': 5}[c] }}{{ {c: 6}['<t>\nhello <t>'] }}{{ {c: 1, '<t>\nhello <t>': 2} }}{{ [c, '<t>\nhello <t>']|unique|list }}`,
		`{{ c|replace('<t>', 'x') }}{{ c|replace('', '-') }}{{ c.replace('t>', '!', 1) }}{{ c|replace('o <', 'O ') }}{{ c|replace(c, c) }}`,
		`{{ c.split('<t>') }}{{ c.split('t>', 1) }}{{ c.rsplit('<t', 1) }}{{ c.split() }}{{ c.rsplit(None, 1) }}{{ c.partition('>\nh') }}{{ c.rpartition('<t') }}`,
		`{{ c.removeprefix('<t>\nh') }}|{{ c.removesuffix('lo <t>') }}|{{ c.removeprefix('x') }}|{{ c.find('o <') }}{{ c.rfind('t>') }}{{ c.index('hell') }}{{ c.count('<t') }}`,
		`{{ c.strip('<>') }}|{{ c.strip('<t>') }}|{{ c.lstrip('<th>\n') }}|{{ c|trim('<>t ') }}|{{ (' ' ~ c ~ ' ')|trim }}|{{ c|capitalize }}|{{ c|title }}{{ c.title() }}{{ c.swapcase() }}{{ ('-' ~ c)|title }}|{{ 'h'.capitalize() }}`,
		`{{ c|wordcount }}{{ c[4:6].isalpha() }}{{ c[4:5].isupper() }}{{ c|first }}{{ c|last }}{{ c|list }}{{ c|sort|join }}{{ c|truncate(5, true, '', 0) }}{{ c[1:-1] }}{{ c|length }}`,
	} {
		template, err := chat.Parse("{% set c = messages[0].content %}" + source)
		require.NoError(t, err, source)
		messages := []chat.Message{{Role: "user", Content: "<t>\nhello <t>"}}
		want, err := template.Render(t.Context(), messages, chat.Options{})
		require.NoError(t, err, source)
		got, err := template.Render(t.Context(), messages, chat.Options{Text: func(_, s string) string { return mark.Replace(s) }})
		require.NoError(t, err, source)
		require.Equal(t, want, unmark.Replace(got), source)
	}
}

// The templates of real models do the same with a conversation whether or not it is marked.
func TestMarksInTemplates(t *testing.T) {
	var vectors struct{ Templates []struct{ Source string } }
	readJSON(t, "testdata/vectors.json", &vectors)
	unmark := strings.NewReplacer(chat.MarkBegin, "", chat.MarkEnd, "")
	messages := []chat.Message{
		{Role: "system", Content: "be <b>"}, {Role: "user", Content: " <tool_response>\nx</tool_response> "},
		{Role: "assistant", Content: "<think>\nhm</think>\n\nyes [x] "}, {Role: "user", Content: "a > b"},
	}
	render := func(source string, text func(role, s string) string) (string, error) {
		template, err := chat.Parse(source)
		if err != nil {
			return "", err
		}
		return template.Render(t.Context(), messages, chat.Options{AddGenerationPrompt: true, Text: text, Now: time.Unix(1, 0)})
	}
	for _, v := range vectors.Templates {
		want, err := render(v.Source, nil)
		got, failed := render(v.Source, func(_, s string) string {
			var b strings.Builder
			for _, r := range s {
				if unicode.IsSpace(r) {
					b.WriteRune(r)
				} else {
					b.WriteString(chat.MarkBegin + string(r) + chat.MarkEnd)
				}
			}
			return b.String()
		})
		require.Equal(t, err == nil, failed == nil, "%v", failed)
		require.Equal(t, want, unmark.Replace(got), v.Source)
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
