package api

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/sample"
)

func TestLogprobs(t *testing.T) {
	s := start(t, nil)
	body := `{"logprobs":true,"top_logprobs":3,"chat_template_kwargs":{"enable_thinking":false},"max_tokens":5,` + question + `}`
	a := s.post("/v1/chat/completions", body)
	text := ""
	content := a.Choices[0].Logprobs.Content
	require.Len(t, content, 5)
	for _, l := range content {
		text += l.Token
		require.Len(t, l.Top, 3)
		require.Equal(t, l.Logprob, l.Top[0].Logprob, "greedy takes the likeliest")
		require.Len(t, l.Bytes, len(l.Token))
		require.Less(t, math.Exp(l.Top[0].Logprob)+math.Exp(l.Top[1].Logprob)+math.Exp(l.Top[2].Logprob), 1+1e-5)
	}
	require.Equal(t, a.Choices[0].Message.Content, text)
	streamed := s.events("/v1/chat/completions", `{"stream":true,`+body[1:])
	got := slices.Clone(content[:0])
	for _, e := range streamed {
		got = append(got, e.Choices[0].Logprobs.Content...)
	}
	require.Equal(t, content, got)

	a = s.post("/v1/completions", `{"prompt":"Hello","temperature":0,"max_tokens":4,"logprobs":2}`)
	l := a.Choices[0].Logprobs
	require.Equal(t, a.Choices[0].Text, strings.Join(l.Tokens, ""))
	require.Len(t, l.Logprobs, 4)
	require.Equal(t, l.Logprobs[0], l.textLogprobs.Top[0][l.Tokens[0]])
	require.Equal(t, len(l.Tokens[0]), l.Offsets[1])
	require.Empty(t, s.post("/v1/completions", `{"prompt":"Hello","max_tokens":1}`).Choices[0].Logprobs)
}

// Tokens that are parts of characters have their bytes and names of their own, and count once in the text.
func TestLogprobsOfParts(t *testing.T) {
	s := start(t, nil)
	const wild = `"temperature":100,"top_k":0,"top_p":1,"max_tokens":40,`
	split := 0
	for seed := range 4 {
		a := s.post("/v1/chat/completions", fmt.Sprintf(`{"logprobs":true,"seed":%d,%s"chat_template_kwargs":{"enable_thinking":false},%s}`, seed, wild, question[:strings.LastIndex(question, `,"temperature"`)]))
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		var joined []byte
		for _, l := range a.Choices[0].Logprobs.Content {
			require.NotEmpty(t, l.Bytes)
			for _, b := range l.Bytes {
				joined = append(joined, byte(b))
			}
		}
		require.Equal(t, strings.ReplaceAll(a.Choices[0].Message.Content, "\uFFFD", ""), strings.ToValidUTF8(string(joined), ""))

		body := fmt.Sprintf(`{"logprobs":5,"seed":%d,%s"prompt":"x"}`, seed, wild)
		a = s.post("/v1/completions", body)
		text, l := []rune(a.Choices[0].Text), a.Choices[0].Logprobs
		var streamed []int
		for _, e := range s.events("/v1/completions", `{"stream":true,`+body[1:]) {
			streamed = append(streamed, e.Choices[0].Logprobs.Offsets...)
		}
		require.Equal(t, l.Offsets, streamed)
		for i, token := range l.Tokens {
			require.Contains(t, l.textLogprobs.Top[i], token)
			if strings.HasPrefix(token, "bytes:") {
				split++
			} else if i == 0 || !strings.HasPrefix(l.Tokens[i-1], "bytes:") {
				require.True(t, strings.HasPrefix(string(text[l.Offsets[i]:]), token), "%q at %d of %q", token, l.Offsets[i], string(text))
			}
		}
	}
	require.Positive(t, split)
}

// A list of tools takes little memory until all of them are objects.
func TestToolsThatAreNoObjects(t *testing.T) {
	body := []byte("[" + strings.Repeat("0,", 100_000) + "0]")
	var all tools
	require.Less(t, testing.AllocsPerRun(1, func() { require.Error(t, json.Unmarshal(body, &all)) }), 1000.0)
	require.Empty(t, all)
}

// Penalties, biases and the least number of tokens reach the engine.
func TestChoiceParameters(t *testing.T) {
	s := start(t, nil)
	id, err := s.model.Load().folder.Tokenizer.Encode("My")
	require.NoError(t, err)
	ask := func(more string) string {
		a := s.post("/v1/chat/completions", `{"chat_template_kwargs":{"enable_thinking":false},"max_tokens":30,`+more+`"messages":[{"role":"user","content":"Hi what is your name"}]}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		return a.Choices[0].Message.Content
	}
	const greedy = `"temperature":0,`
	require.Equal(t, name, ask(greedy))
	require.False(t, strings.HasPrefix(ask(greedy+fmt.Sprintf(`"logit_bias":{"%d":-100},`, id[0])), "My"))
	require.Greater(t, len(ask(greedy+`"min_tokens":30,`)), len(name))
	for _, more := range []string{
		`"logit_bias":{"x":1},`, `"logit_bias":{"-1":1},`, `"logit_bias":{"99999":1},`, `"logit_bias":{"1":101},`, `"presence_penalty":3,`,
		`"frequency_penalty":-3,`, `"repetition_penalty":-1,`, `"repetition_penalty":1e-40,`, `"min_tokens":-1,`, `"min_tokens":9,"max_tokens":8,`, `"top_logprobs":1,`,
		`"logprobs":true,"top_logprobs":21,`, `"logprobs":1,`,
	} {
		require.Equal(t, http.StatusBadRequest, s.post("/v1/chat/completions", `{`+more+question+`}`).status, more)
	}
	require.Equal(t, http.StatusBadRequest, s.post("/v1/completions", `{"prompt":"x","logprobs":-1}`).status)
}

// Numbers for the template are those of the request, however long, and thoughts have either name.
func TestNumbersForTheTemplate(t *testing.T) {
	s := start(t, func(m *loaded) {
		var err error
		m.folder.Template, err = chat.Parse("{{ a }} {{ b }} {{ c }} {{ a is integer }} {{ c is integer }}")
		require.NoError(t, err)
	})
	m := s.model.Load()
	for _, name := range []string{"reasoning_content", "reasoning"} {
		q := &chatRequest{}
		require.NoError(t, json.Unmarshal([]byte(`{"messages":[{"role":"assistant","`+name+`":"Hm."}]}`), q))
		messages, err := q.conversation()
		require.NoError(t, err)
		require.Equal(t, "Hm.", messages[0].Extra["reasoning_content"], name)
	}
	q := &chatRequest{}
	require.NoError(t, json.Unmarshal([]byte(`{"chat_template_kwargs":{"a":512,"b":9007199254740993,"c":0.5}}`), q))
	variables, err := q.variables(m, false)
	require.NoError(t, err)
	text, err := m.folder.Template.Render(t.Context(), nil, chat.Options{Variables: variables})
	require.NoError(t, err)
	require.Equal(t, "512 9007199254740993 0.5 True False", text)
}

// Answers go on after a token that would end them, and end with tokens of the request.
func TestTokensThatEndAnAnswer(t *testing.T) {
	s := start(t, nil)
	const quick = `"enable_thinking":false,"max_tokens":40,` + question + `}`
	a := s.post("/v1/chat/completions", `{"ignore_eos":true,`+quick)
	require.Equal(t, 40, a.Usage.Completion)
	require.Equal(t, "length", a.Choices[0].Finish)
	require.True(t, strings.HasPrefix(a.Choices[0].Message.Content, name), a.Choices[0].Message.Content)
	id, err := s.model.Load().folder.Tokenizer.Encode(" tiny")
	require.NoError(t, err)
	require.Len(t, id, 1)
	a = s.post("/v1/chat/completions", fmt.Sprintf(`{"stop_token_ids":[%d],`, id[0])+quick)
	require.Equal(t, "My name is Mote. I am a", a.Choices[0].Message.Content)
	require.Equal(t, "stop", a.Choices[0].Finish)
}

// Parameters that do not change the demo model's answers also reach the engine.
func TestPenalties(t *testing.T) {
	var got engine.Request
	s := start(t, script(func(_ context.Context, r engine.Request) iter.Seq[string] {
		got = r
		return slices.Values([]string{"x"})
	}))
	s.post("/v1/chat/completions", `{"presence_penalty":0.5,"frequency_penalty":-1,"repetition_penalty":1.2,"min_p":0.1,"top_p":0.9,"top_k":7,"seed":3,"stop":"x","max_tokens":9,"min_tokens":2,`+question+`}`)
	require.Equal(t, engine.Request{
		Prompt: got.Prompt, MaxTokens: 9, MinTokens: 2, Sampling: sample.Params{MinP: 0.1, TopP: 0.9, TopK: 7, Seed: 3}, EOS: []int{2045, 2043}, Stop: []string{"x"},
		PresencePenalty: 0.5, FrequencyPenalty: -1, RepetitionPenalty: 1.2,
	}, got)
	s.post("/v1/chat/completions", `{"repeat_penalty":1.3,"stop_token_ids":[7,8],"min_tokens":3,`+question+`}`)
	require.InDelta(t, 1.3, got.RepetitionPenalty, 0)
	require.Equal(t, []int{2045, 2043, 7, 8}, got.EOS)
	s.post("/v1/completions", `{"prompt":"x","ignore_eos":true,"stop_token_ids":[7]}`)
	require.Equal(t, []int{7}, got.EOS)
	s.post("/v1/completions", `{"prompt":"x","seed":-1}`)
	require.NotEqual(t, ^uint64(0), got.Sampling.Seed)
	s.post("/v1/completions", `{"prompt":"x","seed":-2}`)
	require.Equal(t, ^uint64(1), got.Sampling.Seed)
	// Without parameters, those recommended by the model's authors are used.
	s.post("/v1/chat/completions", ask)
	require.Equal(t, sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, Seed: got.Sampling.Seed}, got.Sampling)
	require.Equal(t, 4096, got.MaxTokens)
	require.Zero(t, got.RepetitionPenalty)
	s.model.Load().folder.Checkpoint.Generation.RepetitionPenalty = new(1.05)
	s.post("/v1/chat/completions", ask)
	require.InDelta(t, 1.05, got.RepetitionPenalty, 0)
	s.post("/v1/chat/completions", `{"repetition_penalty":1,`+ask[1:])
	require.InDelta(t, 1, got.RepetitionPenalty, 0)
}

// withTools gives the model a template like Qwen's, and makes it answer with text.
func withTools(t *testing.T, prompts chan<- string, text string) func(*loaded) {
	return func(m *loaded) {
		require.False(t, m.tools)
		template, err := chat.Parse(`{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`)
		require.NoError(t, err)
		m.folder.Template = template
		m.tools, err = showsTools(t.Context(), m.folder)
		require.NoError(t, err)
		require.True(t, m.tools)
		script(func(_ context.Context, r engine.Request) iter.Seq[string] {
			prompts <- m.folder.Tokenizer.Decode(r.Prompt, 0)
			return slices.Values(strings.SplitAfter(text, ""))
		})(m)
	}
}

func TestTools(t *testing.T) {
	prompts := make(chan string, 10)
	s := start(t, withTools(t, prompts, "<think>\nThe sky.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>"))
	tools := `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],`
	a := s.post("/v1/chat/completions", `{`+tools+question+`}`)
	require.Contains(t, <-prompts, `"name": "weather"`)
	c := a.Choices[0]
	require.Equal(t, "tool_calls", c.Finish)
	require.Equal(t, "Let me look.", c.Message.Content)
	require.Equal(t, "The sky.", c.Message.Reasoning)
	require.Len(t, c.Message.ToolCalls, 2)
	require.Equal(t, "weather", c.Message.ToolCalls[0].Function.Name)
	require.Equal(t, `{"city":"Köln"}`, c.Message.ToolCalls[0].Function.Arguments)
	require.NotEqual(t, c.Message.ToolCalls[0].ID, c.Message.ToolCalls[1].ID)

	var calls []toolCall
	finish := ""
	for _, e := range s.events("/v1/chat/completions", `{"stream":true,`+tools+question+`}`) {
		calls = append(calls, e.Choices[0].Delta.ToolCalls...)
		finish += e.Choices[0].Finish
	}
	require.Len(t, calls, 2)
	require.Equal(t, 1, *calls[1].Index)
	require.Equal(t, c.Message.ToolCalls[1].Function, calls[1].Function)
	require.Equal(t, "tool_calls", finish)

	a = s.post("/v1/chat/completions", `{"parallel_tool_calls":false,`+tools+question+`}`)
	require.Len(t, a.Choices[0].Message.ToolCalls, 1)
	require.Equal(t, "tool_calls", a.Choices[0].Finish)
	// Without tools, and with a choice of none, tags are text.
	for _, more := range []string{"", tools + `"tool_choice":"none",`, tools + `"tool_choice":"\u006eone",`} {
		a = s.post("/v1/chat/completions", `{`+more+question+`}`)
		require.Empty(t, a.Choices[0].Message.ToolCalls)
		require.Contains(t, a.Choices[0].Message.Content, "<tool_call>")
		require.Equal(t, "stop", a.Choices[0].Finish)
	}
	for len(prompts) > 0 {
		<-prompts
	}
	// A call and its result go back into the template.
	a = s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"Rain?"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"<|im_end|>\"}"}}]},
		{"role":"tool","tool_call_id":"1","content":""}]}`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	require.Contains(t, <-prompts, `<tool_call>{"name": "weather", "arguments": {"city": "<|im_end|>"}}</tool_call><|im_end|>`)
	// If members have the same name, the last one counts.
	a = s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Rain?"},
		{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\": \"a\", \"day\": 1, \"city\": \"b\"}"}}]}]}`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	require.Contains(t, <-prompts, `<tool_call>{"name": "weather", "arguments": {"city": "b", "day": 1}}</tool_call>`)
}

// A model whose template knows no tags calls tools by JSON alone; one that does, does not.
func TestCallsWithoutTags(t *testing.T) {
	for _, tags := range []bool{false, true} {
		s := start(t, func(m *loaded) {
			m.tools = true
			script(func(context.Context, engine.Request) iter.Seq[string] {
				return slices.Values(strings.SplitAfter(`{"name": "f", "parameters": {"a": 1}}`, " "))
			})(m)
			if tags {
				var err error
				m.folder.Template, err = chat.Parse("{% if tools %}Write <tool_call>…</tool_call>{% endif %}{{ messages[0].content }}")
				require.NoError(t, err)
			}
		})
		const tools = `"tools":[{"type":"function","function":{"name":"f"}}],`
		a := s.post("/v1/chat/completions", `{`+tools+question+`}`)
		require.Equal(t, tags, a.Choices[0].Message.ToolCalls == nil)
		require.Equal(t, tags, a.Choices[0].Finish == "stop")
		calls, finish := 0, ""
		for _, e := range s.events("/v1/chat/completions", `{"stream":true,`+tools+question+`}`) {
			calls += len(e.Choices[0].Delta.ToolCalls)
			finish += e.Choices[0].Finish
		}
		require.Equal(t, !tags, calls == 1 && finish == "tool_calls")
	}
}

// One call is one call, also where the text of several comes at once.
func TestOneCall(t *testing.T) {
	s := start(t, func(m *loaded) {
		m.tools = true
		script(func(context.Context, engine.Request) iter.Seq[string] {
			return slices.Values([]string{`<tool_call>{"name":"a"}</tool_call> and <tool_call>{"name":"b"}</tool_call>`})
		})(m)
	})
	for more, calls := range map[string]int{`"parallel_tool_calls":false,`: 1, "": 2} {
		a := s.post("/v1/chat/completions", `{`+more+`"tools":[{"type":"function","function":{"name":"a"}}],`+question+`}`)
		require.Len(t, a.Choices[0].Message.ToolCalls, calls, more)
		require.Equal(t, calls == 1, a.Choices[0].Message.Content == "", more)
		require.Equal(t, "tool_calls", a.Choices[0].Finish)
	}
}

// A model whose template shows no tools is not asked to use them.
func TestNoTools(t *testing.T) {
	s := start(t, nil)
	a := s.post("/v1/chat/completions", `{"tools":[{"type":"function","function":{"name":"f"}}],`+question+`}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "unsupported", a.Error.Code)
	require.Equal(t, "tools", a.Error.Param)
}

// JSON of a schema, whole and streamed, with thoughts before it and without.
func TestResponseFormat(t *testing.T) {
	s := start(t, nil)
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"name":{"type":"string","maxLength":30},"size":{"enum":["tiny","huge"]}},"required":["name","size"]}}},`
	for _, more := range []string{"", `"chat_template_kwargs":{"enable_thinking":false},`} {
		a := s.post("/v1/chat/completions", `{`+format+more+question+`}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		var got struct{ Name, Size string }
		require.NoError(t, json.Unmarshal([]byte(a.Choices[0].Message.Content), &got, json.MatchCaseInsensitiveNames(true)), a.Choices[0].Message.Content)
		require.Contains(t, []string{"tiny", "huge"}, got.Size)
		require.Equal(t, "stop", a.Choices[0].Finish)
		require.Equal(t, more == "", a.Choices[0].Message.Reasoning != "")
		content := ""
		for _, e := range s.events("/v1/chat/completions", `{"stream":true,`+format+more+question+`}`) {
			content += e.Choices[0].Delta.Content
		}
		require.Equal(t, a.Choices[0].Message.Content, content)
	}
	a := s.post("/v1/chat/completions", `{"max_tokens":60,"response_format":{"type":"json_object"},"chat_template_kwargs":{"enable_thinking":false},`+question+`}`)
	if a.Choices[0].Finish == "stop" {
		require.True(t, jsontext.Value(a.Choices[0].Message.Content).IsValid(), a.Choices[0].Message.Content)
	}
	require.Equal(t, byte('{'), strings.TrimSpace(a.Choices[0].Message.Content)[0])
	a = s.post("/v1/chat/completions", `{"response_format":{"type":"json_object","schema":{"const":5}},"chat_template_kwargs":{"enable_thinking":false},`+question+`}`)
	require.Equal(t, "5", strings.TrimSpace(a.Choices[0].Message.Content))
	for _, wrong := range []string{`{"type":"yaml"}`, `{"type":"json_schema","json_schema":{"schema":{"type":"nonsense"}}}`} {
		a = s.post("/v1/chat/completions", `{"response_format":`+wrong+`,`+question+`}`)
		require.Equal(t, http.StatusBadRequest, a.status, wrong)
		require.Contains(t, a.Error.Param, "response_format")
	}
	a = s.post("/v1/chat/completions", `{"response_format":{"type":"json_schema"},`+question+`}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "response_format.json_schema.schema", a.Error.Param)
}

// A model that knows nothing of tools still calls the one that it must call.
func TestForcedTools(t *testing.T) {
	s := start(t, func(m *loaded) { m.tools = true })
	tools := `"max_tokens":150,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"days":{"enum":[1,2]}},"required":["days"]}}},{"type":"function","function":{"name":"now"}}],`
	for choice, want := range map[string][]string{`"required"`: {"weather", "now"}, `"\u0072equired"`: {"weather", "now"}, `{"type":"function","function":{"name":"weather"}}`: {"weather"}} {
		a := s.post("/v1/chat/completions", `{`+tools+`"tool_choice":`+choice+`,`+question+`}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		require.Len(t, a.Choices[0].Message.ToolCalls, 1, "%+v", a.Choices[0])
		call := a.Choices[0].Message.ToolCalls[0].Function
		require.Contains(t, want, call.Name)
		if call.Name == "weather" {
			require.Regexp(t, `^\{"days":[12]\}$`, call.Arguments)
		}
		require.Equal(t, "tool_calls", a.Choices[0].Finish)
		require.Empty(t, a.Choices[0].Message.Content)
	}
	// The schema's own definitions stay where its references look for them.
	a := s.post("/v1/chat/completions", `{"max_tokens":150,"tools":[{"function":{"name":"f","parameters":{"type":"object","$defs":{"p":{"enum":[7]}},"properties":{"a":{"$ref":"#/$defs/p"}},"required":["a"]}}}],"tool_choice":"required",`+question+`}`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	require.Equal(t, `{"a":7}`, a.Choices[0].Message.ToolCalls[0].Function.Arguments)
	// With a response format, the model may call a tool or answer.
	const logitBias, format = `"logit_bias":{%s},`, `"response_format":{"type":"json_schema","json_schema":{"schema":{"const":5}}},`
	for begin, calls := range map[string]int{"5": 0, "<": 1} {
		id, err := s.model.Load().folder.Tokenizer.Encode(begin)
		require.NoError(t, err)
		a := s.post("/v1/chat/completions", `{"chat_template_kwargs":{"enable_thinking":false},`+fmt.Sprintf(logitBias, fmt.Sprintf(`"%d":100`, id[0]))+format+tools+question+`}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		require.Len(t, a.Choices[0].Message.ToolCalls, calls, "%+v", a.Choices[0])
		unsupported := strings.Replace(tools, `"enum":[1,2]`, `"type":"integer","minimum":1`, 1)
		a = s.post("/v1/chat/completions", `{"chat_template_kwargs":{"enable_thinking":false},`+fmt.Sprintf(logitBias, fmt.Sprintf(`"%d":100`, id[0]))+format+unsupported+question+`}`)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		if calls == 0 {
			require.Equal(t, "5", strings.TrimSpace(a.Choices[0].Message.Content))
		}
	}
	for _, choice := range []string{`"x"`, `""`, `3`, `{"type":"function","function":{"name":"other"}}`} {
		a := s.post("/v1/chat/completions", `{`+tools+`"tool_choice":`+choice+`,`+question+`}`)
		require.Equal(t, http.StatusBadRequest, a.status, choice)
		require.Equal(t, "tool_choice", a.Error.Param)
	}
}
