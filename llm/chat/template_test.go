package chat_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// TestGoldens compares the demo model's template with what transformers rendered.
func TestGoldens(t *testing.T) {
	var goldens struct {
		Cases []struct{ Prompt, Rendered string }
	}
	readJSON(t, "../demomodel/mote-4bit/goldens/goldens.json", &goldens)
	require.NotEmpty(t, goldens.Cases)
	template, err := chat.Open(demomodel.FS())
	require.NoError(t, err)
	for _, c := range goldens.Cases {
		text, err := template.Render(t.Context(), []chat.Message{{Role: "user", Content: c.Prompt}}, chat.Options{AddGenerationPrompt: true})
		require.NoError(t, err)
		require.Equal(t, c.Rendered, text)
	}
}

type run struct {
	Messages            []map[string]json.RawMessage
	AddGenerationPrompt bool `json:"add_generation_prompt"`
	Variables           map[string]any
	Tools               []json.RawMessage
}

// conversation turns a row of vectors.json into arguments of Render.
func (r run) conversation(t testing.TB, now time.Time) ([]chat.Message, chat.Options) {
	t.Helper()
	var out []chat.Message
	for _, fields := range r.Messages {
		m := chat.Message{Extra: map[string]any{}}
		for key, raw := range fields {
			switch key {
			case "role":
				require.NoError(t, json.Unmarshal(raw, &m.Role))
			case "content":
				require.NoError(t, json.Unmarshal(raw, &m.Content))
			default:
				m.Extra[key] = raw
			}
		}
		out = append(out, m)
	}
	return out, chat.Options{AddGenerationPrompt: r.AddGenerationPrompt, Variables: r.Variables, Tools: r.Tools, Now: now}
}

// TestVectors compares templates with Jinja; testdata/vectors.py made the vectors.
func TestVectors(t *testing.T) {
	var vectors struct {
		Now       string
		Runs      []run
		Templates []struct {
			Name, Source string
			Results      []struct{ Text, Error *string }
		}
	}
	readJSON(t, "testdata/vectors.json", &vectors)
	now, err := time.Parse("2006-01-02T15:04:05.999999", vectors.Now)
	require.NoError(t, err)
	for _, v := range vectors.Templates {
		t.Run(v.Name, func(t *testing.T) {
			config, err := json.Marshal(map[string]any{"chat_template": v.Source, "bos_token": map[string]any{"content": "<s>"}})
			require.NoError(t, err)
			template, parseErr := chat.Load(config)
			for i, want := range v.Results {
				var text string
				err := parseErr
				if err == nil {
					messages, options := vectors.Runs[i].conversation(t, now)
					text, err = template.Render(t.Context(), messages, options)
				}
				if want.Error != nil {
					require.ErrorIs(t, err, chat.ErrTemplate, "Jinja says: %s", *want.Error)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, *want.Text, text)
			}
		})
	}
}

// TestExpressions compares single expressions and statements with Jinja.
func TestExpressions(t *testing.T) {
	var vectors struct {
		Variables map[string]json.RawMessage
		Lines     []struct {
			Source      string
			Text, Error *string
		}
	}
	readJSON(t, "testdata/expressions.json", &vectors)
	variables := map[string]any{}
	for name, raw := range vectors.Variables {
		variables[name] = raw
	}
	for _, line := range vectors.Lines {
		text := ""
		template, err := chat.Parse(line.Source)
		if err == nil {
			text, err = template.Render(t.Context(), nil, chat.Options{Variables: variables})
		}
		if line.Error != nil {
			require.ErrorIs(t, err, chat.ErrTemplate, "%s: Jinja says: %s", line.Source, *line.Error)
			continue
		}
		require.NoError(t, err, line.Source)
		require.Equal(t, *line.Text, text, line.Source)
	}
}

// An integer of JSON keeps its digits, however many there are.
func TestLongIntegers(t *testing.T) {
	digits := strings.Repeat("1234567890", 40)
	for source, want := range map[string]string{
		"{{ x }} {{ -1 in [x] }}": digits + " False",
		"{{ [x]|tojson }}":        "[" + digits + "]",
		"{{ x is integer }} {{ x is number }} {{ x is float }}":                         "True True False",
		"{{ x == y }} {{ x == x }} {{ x > 1 }}":                                         "False True True",
		"{{ x|int == x }} {{ x|abs == x }} {{ x|round == x }}":                          "True True True",
		"{{ '%d' % x }} {{ x|string|length }}":                                          digits + " 400",
		"{{ {x: 1}[x] }}":                                                               "1",
		"{{ 9223372036854775807 == z }} {{ z == 9223372036854775807 }} {{ z == true }}": "False False False",
	} {
		template, err := chat.Parse(source)
		require.NoError(t, err)
		text, err := template.Render(t.Context(), nil, chat.Options{Variables: map[string]any{
			"x": json.RawMessage(digits), "y": json.RawMessage(digits[:399] + "1"),
			"z": json.RawMessage("9223372036854775808"),
		}})
		require.NoError(t, err, source)
		require.Equal(t, want, text, source)
	}
	for _, source := range []string{"{{ x + 1 }}", "{{ -x }}"} {
		template, err := chat.Parse(source)
		require.NoError(t, err)
		_, err = template.Render(t.Context(), nil, chat.Options{Variables: map[string]any{"x": json.RawMessage(digits)}})
		require.ErrorIs(t, err, chat.ErrTemplate, source)
	}
}

// A directive that strftime does not know is copied unchanged.
func TestUnknownDirectives(t *testing.T) {
	template, err := chat.Parse("{{ strftime_now('%é %-é %-d %Q %') }}")
	require.NoError(t, err)
	text, err := template.Render(t.Context(), nil, chat.Options{Now: time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	require.Equal(t, "%é %-é 6 %Q %", text)
}

func TestRaiseException(t *testing.T) {
	template, err := chat.Parse("{{ raise_exception('roles must alternate') }}")
	require.NoError(t, err)
	_, err = template.Render(t.Context(), nil, chat.Options{})
	require.ErrorIs(t, err, chat.ErrTemplate)
	require.ErrorContains(t, err, "roles must alternate")
	var e *chat.TemplateError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "render", e.Stage)
	for argument, want := range map[string]string{
		`{"a": [1, none]}`: "{'a': [1, None]}", "none": "None", "[1.0, true]": "[1.0, True]", `message="named"`: "named",
	} {
		template, err := chat.Parse("{{ raise_exception(" + argument + ") }}")
		require.NoError(t, err)
		_, err = template.Render(t.Context(), nil, chat.Options{})
		require.ErrorAs(t, err, &e)
		require.Equal(t, "line 1: "+want, e.Reason)
	}
}

// Marks of places in a text do not get into errors that quote it.
func TestErrorsWithoutMarks(t *testing.T) {
	template, err := chat.Parse("{{ raise_exception('what is ' + messages[0].content) }}")
	require.NoError(t, err)
	mark := func(_, s string) string { return strings.ReplaceAll(s, "<", chat.MarkBegin+"<"+chat.MarkEnd) }
	_, err = template.Render(t.Context(), []chat.Message{{Role: "user", Content: "a <b> c"}}, chat.Options{Text: mark})
	require.ErrorContains(t, err, "what is a <b> c")
	template, err = chat.Parse("{{ {}[messages[0].content].x }}")
	require.NoError(t, err)
	_, err = template.Render(t.Context(), []chat.Message{{Role: "user", Content: "a <b> c"}}, chat.Options{Text: mark})
	require.ErrorContains(t, err, "a <b> c")
}

func TestURLEncodeRefusesQueries(t *testing.T) {
	for _, value := range []string{"{'a': 'b'}", "[('a', 'b')]"} {
		template, err := chat.Parse("{{ " + value + "|urlencode }}")
		require.NoError(t, err)
		_, err = template.Render(t.Context(), nil, chat.Options{})
		require.ErrorContains(t, err, "urlencode of ")
	}
}

func TestVariables(t *testing.T) {
	template, err := chat.Parse("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"map is sorted":   {map[string]any{"b": 1, "a": "s"}, "a=s;b=1;"},
		"JSON keeps":      {json.RawMessage(`{"b":1,"a":[true,null,1.5]}`), "b=1;a=[True, None, 1.5];"},
		"JSON twice":      {json.RawMessage(`{"b":1,"a":2,"b":3}`), "b=3;a=2;"},
		"list of strings": {map[string]any{"l": []string{"p", "q"}}, "l=['p', 'q'];"},
		"list":            {map[string]any{"l": []any{int64(1), false}}, "l=[1, False];"},
		"long integers": {
			json.RawMessage(`{"a":18446744073709551615,"b":[-18446744073709551616]}`),
			"a=18446744073709551615;b=[-18446744073709551616];",
		},
	} {
		text, err := template.Render(t.Context(), nil, chat.Options{Variables: map[string]any{"x": c.value}})
		require.NoError(t, err, name)
		require.Equal(t, c.want, text, name)
	}
	for _, bad := range []any{struct{}{}, json.RawMessage("{"), json.RawMessage("1 2"), []any{make(chan int)}, map[string]any{"a": 1i}} {
		_, err := template.Render(t.Context(), nil, chat.Options{Variables: map[string]any{"x": bad}})
		require.ErrorIs(t, err, chat.ErrTemplate)
		_, err = template.Render(t.Context(), []chat.Message{{Extra: map[string]any{"x": bad}}}, chat.Options{})
		require.ErrorIs(t, err, chat.ErrTemplate)
	}
	_, err = template.Render(t.Context(), nil, chat.Options{Tools: []json.RawMessage{[]byte("{")}})
	require.ErrorIs(t, err, chat.ErrTemplate)
}

// Values nested too deeply, or that contain themselves, are refused as such JSON is.
func TestDeepVariables(t *testing.T) {
	template, err := chat.Parse("{{ x }}")
	require.NoError(t, err)
	render := func(v any) error {
		_, err := template.Render(t.Context(), nil, chat.Options{Variables: map[string]any{"x": v}})
		return err
	}
	var deep any
	for range 100 {
		deep = []any{deep}
	}
	require.NoError(t, render(deep))
	loop, ring := map[string]any{}, []any{nil}
	loop["a"], ring[0] = loop, ring
	for _, bad := range []any{[]any{deep}, map[string]any{"a": deep}, loop, ring} {
		err := render(bad)
		require.ErrorIs(t, err, chat.ErrTemplate)
		require.ErrorContains(t, err, "nested deeper than 100")
	}
}

func TestLimits(t *testing.T) {
	nest := func(n int) string {
		s := ""
		for range n {
			s += "("
		}
		s += "1"
		for range n {
			s += ")"
		}
		return "{{ " + s + " }}"
	}
	_, err := chat.Parse(nest(100))
	require.NoError(t, err)
	for _, source := range []string{nest(101), string(make([]byte, 1<<20+1)), "{{ '\\u12' }}", "{{ '\\ud800' }}", "{{ 'a\\"} {
		_, err := chat.Parse(source)
		require.ErrorIs(t, err, chat.ErrTemplate)
	}
}

// FuzzTemplate: any template is refused or rendered, without a panic.
func FuzzTemplate(f *testing.F) {
	var vectors struct{ Templates []struct{ Source string } }
	readJSON(f, "testdata/vectors.json", &vectors)
	for _, v := range vectors.Templates {
		f.Add(v.Source)
	}
	for _, source := range hostile {
		f.Add(source)
	}
	lines, err := os.ReadFile("testdata/expressions.txt")
	require.NoError(f, err)
	for line := range strings.Lines(string(lines)) {
		f.Add(line)
	}
	messages := []chat.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}
	f.Fuzz(func(t *testing.T, source string) {
		template, err := chat.Parse(source)
		if err == nil {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err = template.Render(ctx, messages, chat.Options{AddGenerationPrompt: true})
		}
		if err != nil {
			require.ErrorIs(t, err, chat.ErrTemplate)
			require.NotErrorIs(t, err, chat.ErrInternal, "a panic")
		}
	})
}

func TestNilTemplate(t *testing.T) {
	var none *chat.Template
	_, err := none.Render(t.Context(), nil, chat.Options{})
	require.ErrorIs(t, err, chat.ErrTemplate)
	require.ErrorContains(t, err, "the template is nil")
}

// A message that is to be continued is the end of the text, whatever the template would write after it.
func TestContinueLast(t *testing.T) {
	template, err := chat.Parse("{% for m in messages %}[{{ m.role }}]{{ m.content | trim if trimmed else m.content }}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
	require.NoError(t, err)
	messages := []chat.Message{{Role: "user", Content: "Say A."}, {Role: "assistant", Content: " A:\u3000 "}}
	for trimmed, want := range map[bool]string{false: "[user]Say A.[end][assistant] A:\u3000 ", true: "[user]Say A.[end][assistant]A:"} {
		text, err := template.Render(t.Context(), messages, chat.Options{ContinueLast: true, Variables: map[string]any{"trimmed": trimmed}})
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	without, err := chat.Parse("{{ messages[0].content }}")
	require.NoError(t, err)
	_, err = without.Render(t.Context(), messages, chat.Options{ContinueLast: true})
	require.ErrorIs(t, err, chat.ErrTemplate)
	require.ErrorContains(t, err, "does not write the last message's content")
}
