package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/grammar"
)

// The arguments of a forced call are an object, also where the function's parameters do not say so.
func TestForcedArguments(t *testing.T) {
	s := start(t, func(m *loaded) { m.tools = true })
	forced := func(parameters string) (*chatRequest, string) {
		tools := fmt.Sprintf(`"tools":[{"function":{"name":"g"}},{"function":{"name":"f","parameters":%s}}]`, parameters)
		body, q := `{`+tools+`,"tool_choice":"required",`+question+`}`, new(chatRequest)
		require.NoError(t, s.decode(t.Context(), []byte(body), q))
		return q, body
	}
	for parameters, fits := range map[string]string{
		`null`: `{"a":1}`, `true`: `{"a":1}`, `{}`: `{"a":1}`, `{ }`: `{"a":1}`, `{"description":"x"}`: `{"a":1}`, `{"$id":"x"}`: `{"a":1}`,
		`{"items":{"type":"string"}}`: `{"a":1}`, `{ "required": [] }`: `{"a":1}`,
		`{"properties":{"a":{"enum":[1]}},"minLength":3}`: `{"a":1}`,
		`{"const":{"a":1}}`:                             `{"a":1}`,
		`{"anyOf":[{"type":"object"},{"type":"null"}]}`: `{"a":1}`,
		`{"type":["object","null"]}`:                    `null`,
		`{"$ref":"#/$defs/p","$defs":{"p":{"properties":{"a":{"$ref":"#/$defs/a"}}},"a":{"type":"integer"}}}`: `{"a":1}`,
	} {
		q, _ := forced(parameters)
		g, err := q.grammar(t.Context(), s.model.Load())
		require.NoError(t, err, parameters)
		call := g.Matcher()
		require.True(t, call.AcceptText("<tool_call>\n"+`{"name":"f","arguments":`), parameters)
		for _, other := range []string{`"`, "[", "t", "f", "-", "1"} {
			require.False(t, call.AcceptText(other), parameters)
		}
		require.True(t, call.AcceptText(fits+"}\n</tool_call>"), parameters)
		require.True(t, call.Ended(), parameters)
	}
	for _, parameters := range []string{
		`{"type":"string"}`, `{"type":["object","array"]}`, `{"const":5}`, `{"enum":[{"a":1},true]}`,
		`{"anyOf":[{"type":"object"},{"type":"number"}]}`, `{"$ref":"#/$defs/p","$defs":{"p":{"type":"array"}}}`,
	} {
		q, body := forced(parameters)
		a := s.post("/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, a.status, parameters)
		require.Equal(t, "tools", a.Error.Param)
		require.Contains(t, a.Error.Message, `the parameters of "f" allow values that are not objects`, parameters)
		// Where a call is not required, any object may be its arguments.
		q.ToolChoice, q.ResponseFormat = jsontext.Value(`"auto"`), &responseFormat{Type: "json_object"}
		g, err := q.grammar(t.Context(), s.model.Load())
		require.NoError(t, err, parameters)
		call := g.Matcher()
		require.True(t, call.AcceptText("<tool_call>\n"+`{"name":"f","arguments":`), parameters)
		require.False(t, call.AcceptText(`"`), parameters)
		require.True(t, call.AcceptText(`{"a":1}`), parameters)
	}
}

// Answers have the form that a field of llama.cpp's server or of vLLM requires, in chats and in texts.
func TestForms(t *testing.T) {
	s := start(t, nil)
	for field, want := range map[string]string{
		`"json_schema":{"const":5}`:                               `^5$`,
		`"grammar":"root ::= \"<\" [a-c]{3} \">\""`:               `^<[a-c]{3}>$`,
		`"structured_outputs":{"json":{"enum":[1]}}`:              `^1$`,
		`"structured_outputs":{"regex":"\\d{3}-\\d{4}"}`:          `^\d{3}-\d{4}$`,
		`"structured_outputs":{"choice":["red (dark)","green."]}`: `^(red \(dark\)|green\.)$`,
		`"structured_outputs":{"grammar":"root ::= \"a\"{4}"}`:    `^aaaa$`,
		`"guided_json":{"type":"boolean"}`:                        `^(true|false)$`,
		`"regex":"[xy]z"`:                                         `^[xy]z$`,
		`"ebnf":"root ::= \"q\"{2} \"r\""`:                        `^qqr$`,
		`"guided_regex":"(?i)abc"`:                                `^(?i)abc$`,
		`"guided_choice":["x"],"guided_json":null`:                `^x$`,
		`"guided_grammar":"root ::= \"é\""`:                       `^é$`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"^[a-c]{2}\"$"}}}`: `^"[a-c]{2}\\""$`,
	} {
		a := s.post("/v1/chat/completions", `{`+field+`,"chat_template_kwargs":{"enable_thinking":false},`+question+`}`)
		require.Equal(t, http.StatusOK, a.status, field)
		require.Regexp(t, want, strings.TrimLeft(a.Choices[0].Message.Content, " \n\t"), field)
		a = s.post("/v1/completions", `{"prompt":"Hi","max_tokens":30,"temperature":0,`+field+`}`)
		require.Equal(t, http.StatusOK, a.status, field)
		require.Regexp(t, want, strings.TrimLeft(a.Choices[0].Text, " \n\t"), field)
	}
	for fields, param := range map[string]string{
		`"grammar":"root ::= x"`:                                          "grammar",
		`"guided_regex":"("`:                                              "guided_regex",
		`"regex":"` + strings.Repeat("a", 200_000) + `"`:                  "regex",
		`"json_schema":{"not":true}`:                                      "json_schema",
		`"guided_json":true,"grammar":"root ::= \"a\""`:                   "guided_json",
		`"structured_outputs":{"regex":"a","choice":["b"]}`:               "structured_outputs.choice",
		`"structured_outputs":{"json_object":true,"structural_tag":"{}"}`: "structured_outputs.structural_tag",
		`"response_format":{"type":"json_object"},"guided_choice":["a"]`:  "guided_choice",
	} {
		for path, rest := range map[string]string{"/v1/chat/completions": question, "/v1/completions": `"prompt":"Hi"`} {
			a := s.post(path, `{`+fields+`,`+rest+`}`)
			require.Equal(t, http.StatusBadRequest, a.status, fields)
			require.Equal(t, param, a.Error.Param, a.Error.Message)
		}
	}
}

// A grammar waits while as many are compiled as there are processors, until its request ends; a known one does not wait.
func TestCompilingAtOnce(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.Timeout = 50 * time.Millisecond })
	g := s.model.Load().grammars
	known, err := g.compile(t.Context(), nil, grammar.Alternative{Regexp: "a"})
	require.NoError(t, err)
	for range cap(g.compiling) {
		g.compiling <- struct{}{}
	}
	again, err := g.compile(t.Context(), nil, grammar.Alternative{Regexp: "a"})
	require.NoError(t, err)
	require.Same(t, known, again)
	for path, rest := range map[string]string{"/v1/chat/completions": question, "/v1/completions": `"prompt":"Hi"`} {
		a := s.post(path, `{"regex":"b",`+rest+`}`)
		require.Equal(t, http.StatusGatewayTimeout, a.status)
		require.Equal(t, "timeout", a.Error.Code)
	}
	<-g.compiling
	other, err := g.compile(t.Context(), nil, grammar.Alternative{Regexp: "b"})
	require.NoError(t, err)
	require.NotSame(t, known, other)
}

// Forms have the same key only if they are the same.
func TestKeysOfForms(t *testing.T) {
	keys := map[formsKey]bool{}
	all := [][]grammar.Alternative{
		{{Regexp: "ab"}}, {{GBNF: "ab"}}, {{Schema: []byte("ab")}}, {{Regexp: "a"}, {Regexp: "b"}}, {{Regexp: "b"}, {Regexp: "a"}},
		{{Regexp: "a", GBNF: "b"}}, {{Regexp: "a", Options: grammar.Options{After: "b"}}}, {{Regexp: "b", Options: grammar.Options{Before: "a"}}},
		{{Regexp: "a1 b"}}, {{Regexp: "a"}, {}},
	}
	for _, forms := range all {
		require.Equal(t, keyOf(forms), keyOf(slices.Clone(forms)))
		keys[keyOf(forms)] = true
	}
	require.Len(t, keys, len(all))
}

// Calls of strict tools fit their parameters wherever the model writes them, in each API; the answer is free otherwise.
func TestStrictTools(t *testing.T) {
	prompts := make(chan string, 10)
	var got engine.Request
	s := start(t, withTools(t, prompts, "No."))
	m := s.model.Load()
	submit := m.submit
	m.submit = func(ctx context.Context, r engine.Request, n int) ([]stream, error) {
		got = r
		return submit(ctx, r, n)
	}
	const parameters = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`
	const ask, input = `"messages":[{"role":"user","content":"Rain?"}]`, `"input":"Rain?"`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"tools":[{"type":"function","function":{"name":"weather","strict":true,"parameters":` + parameters + `}},{"type":"function","function":{"name":"other","parameters":` + parameters + `}}],` + ask,
		"/v1/responses":        `{"tools":[{"type":"function","name":"weather","strict":true,"parameters":` + parameters + `},{"type":"function","name":"other","parameters":` + parameters + `}],` + input,
		"/v1/messages":         `{"tools":[{"name":"weather","strict":true,"input_schema":` + parameters + `},{"name":"other","input_schema":` + parameters + `}],` + ask,
	} {
		response := s.request(t.Context(), path, body+"}")
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, callTag, got.GrammarTrigger)
		require.Empty(t, got.GrammarAfter)
		for call, want := range map[string]bool{
			`{"name":"weather","arguments":{"city":"Bonn"}}`:  true,
			`{"name":"weather","arguments":{"town":"Bonn"}}`:  false,
			`{"name":"other","arguments":{"town":"Bonn"}}`:    true,
			`{"name":"unknown","arguments":{"city":"Bonn"}}`:  false,
			`{"name":"weather","arguments":{"city":"Bonn"},1`: false,
		} {
			require.Equal(t, want, got.Grammar.Matcher().AcceptText("\n"+call+"\n"+callEnd), "%s: %s", path, call)
		}
		loose := strings.Replace(body, `"strict":true`, `"strict":false`, 1)
		require.Equal(t, http.StatusOK, s.request(t.Context(), path, loose+"}").StatusCode)
		require.Nil(t, got.Grammar)
		// What cannot be enforced is refused.
		wrong := strings.Replace(body, `{"type":"string"}`, `{"type":"string","contentEncoding":"zip","not":{}}`, 1)
		require.Equal(t, http.StatusBadRequest, s.request(t.Context(), path, wrong+"}").StatusCode)
	}
}

// With allowed_tools, the model sees all tools, and can or must call some of them.
func TestAllowedTools(t *testing.T) {
	prompts := make(chan string, 1)
	var got engine.Request
	s := start(t, withTools(t, prompts, "No."))
	m := s.model.Load()
	submit := m.submit
	m.submit = func(ctx context.Context, r engine.Request, n int) ([]stream, error) {
		got = r
		return submit(ctx, r, n)
	}
	const tools = `"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"c"}}],`
	const flat = `"tools":[{"type":"function","name":"a"},{"type":"function","name":"b"},{"type":"function","name":"c"}],"input":"Hi",`
	ask := func(path, body, before string) {
		require.Equal(t, http.StatusOK, s.request(t.Context(), path, "{"+body+"}").StatusCode)
		prompt := <-prompts
		for name, want := range map[string]bool{"a": true, "b": false, "c": true} {
			require.Contains(t, prompt, `"name": "`+name+`"`)
			require.Equal(t, want, got.Grammar.Matcher().AcceptText(before+`{"name":"`+name+`","arguments":{"x":1}}`+"\n"+callEnd), name)
		}
	}
	for mode, before := range map[string]string{"auto": "\n", "required": callTag + "\n"} {
		ask("/v1/chat/completions", tools+`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"`+mode+`","tools":[{"type":"function","function":{"name":"c"}},{"type":"function","function":{"name":"a"}}]}},`+question, before)
		require.Equal(t, mode == "auto", got.GrammarTrigger == callTag)
		ask("/v1/responses", flat+`"tool_choice":{"type":"allowed_tools","mode":"`+mode+`","tools":[{"type":"function","name":"c"},{"type":"function","name":"a"}]}`, before)
	}
	// Without a tag at which calls begin, the model sees only the tools that it may call, and a call of others is text.
	var err error
	m.folder.Template, err = chat.Parse(`{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}`)
	require.NoError(t, err)
	for name, calls := range map[string]int{"a": 1, "b": 0} {
		script(func(_ context.Context, r engine.Request) iter.Seq[string] {
			prompts <- m.folder.Tokenizer.Decode(r.Prompt, 0)
			return slices.Values([]string{`{"name":"` + name + `","parameters":{}}`})
		})(m)
		a := s.post("/v1/chat/completions", `{`+tools+`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"a"}}]}},`+question+`}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		prompt := <-prompts
		require.Contains(t, prompt, `"name": "a"`)
		require.NotContains(t, prompt, `"name": "b"`)
		require.Len(t, a.Choices[0].Message.ToolCalls, calls)
	}
}
