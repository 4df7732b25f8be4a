package api

import (
	"bufio"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// respond sends a request for a response.
func (s service) respond(body string) (r response) {
	s.Helper()
	s.into("/v1/responses", body, &r)
	return r
}

// responseEvents sends a request for a stream, and returns its events.
func (s service) responseEvents(body string) (out []responseEvent) {
	s.Helper()
	answer := s.request(s.Context(), "/v1/responses", body)
	require.Equal(s, "text/event-stream", answer.Header.Get("Content-Type"))
	name := ""
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e responseEvent
			require.NoError(s, json.Unmarshal([]byte(data), &e), data)
			require.Equal(s, name, e.Type)
			require.Equal(s, len(out), e.Sequence)
			out = append(out, e)
		} else if lines.Text() != "" {
			name, ok = strings.CutPrefix(lines.Text(), "event: ")
			require.True(s, ok, lines.Text())
		}
	}
	return out
}

// A response has thoughts and an answer as items, which a stream builds up.
func TestResponses(t *testing.T) {
	s := start(t, nil)
	const body = `"temperature":0,"instructions":null,"input":"Hi what is your name","metadata":{"a":"b"}`
	r := s.respond(`{` + body + `}`)
	require.Equal(t, "completed", r.Status)
	require.Regexp(t, "^resp_", r.ID)
	require.Len(t, r.Output, 2)
	require.Equal(t, "reasoning", r.Output[0].Type)
	require.Contains(t, r.Output[0].Content[0].Text, "asked for my name")
	require.Equal(t, "message", r.Output[1].Type)
	require.Equal(t, name, r.Output[1].Content[0].Text)
	require.Equal(t, map[string]string{"a": "b"}, r.Metadata)
	require.Equal(t, 13, r.Usage.Input)
	require.Equal(t, 41, r.Usage.Output)
	require.Positive(t, r.Usage.OutputDetails.Reasoning)

	var types []string
	texts := map[string]string{}
	events := s.responseEvents(`{"stream":true,` + body + `}`)
	for _, e := range events {
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		if e.Delta != nil {
			texts[e.Type] += *e.Delta
			require.Equal(t, 0, *e.Content)
		}
	}
	require.Equal(t, strings.Fields(`response.created response.in_progress
		response.output_item.added response.content_part.added response.reasoning_text.delta response.reasoning_text.done response.content_part.done response.output_item.done
		response.output_item.added response.content_part.added response.output_text.delta response.output_text.done response.content_part.done response.output_item.done
		response.completed`), types)
	require.Equal(t, map[string]string{"response.reasoning_text.delta": r.Output[0].Content[0].Text, "response.output_text.delta": name}, texts)
	last := events[len(events)-1].Response
	require.Equal(t, "completed", last.Status)
	require.Equal(t, r.Usage, last.Usage)
	for i := range last.Output {
		require.Equal(t, r.Output[i].Content, last.Output[i].Content)
		require.Equal(t, "completed", last.Output[i].Status)
	}
	require.Empty(t, events[0].Response.Output)
	require.Equal(t, "in_progress", events[0].Response.Status)

	r = s.respond(`{"temperature":0,"max_output_tokens":3,"input":"Hi"}`)
	require.Equal(t, "incomplete", r.Status)
	require.Equal(t, "max_output_tokens", r.Incomplete.Reason)
	require.Equal(t, "incomplete", r.Output[0].Status)
	r = s.respond(`{"include":["reasoning.encrypted_content"],"truncation":"disabled","text":{"format":{"type":"json_schema","name":"x","schema":{"enum":[7]}}},"reasoning":{"effort":"none"},"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}]}`)
	require.Equal(t, "7", strings.TrimSpace(r.Output[len(r.Output)-1].Content[0].Text))
}

// Calls of tools are items, and items of earlier calls and thoughts reach the model as messages.
func TestToolsOfResponses(t *testing.T) {
	prompts := make(chan string, 9)
	s := start(t, withTools(t, prompts, "<think>\nThe sky.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>"))
	const body = `"tools":[{"type":"function","name":"weather","description":"tells","strict":true,"parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"instructions":"Be short.","input":[
		{"role":"user","content":"Weather?"},
		{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]},
		{"type":"function_call","call_id":"1","name":"weather","arguments":"{\"city\":\"Bonn\"}"},
		{"type":"function_call","call_id":"2","name":"weather","arguments":""},
		{"type":"function_call_output","call_id":"1","output":"rain"}]`
	r := s.respond(`{` + body + `}`)
	prompt := <-prompts
	require.Contains(t, prompt, `{"type": "function", "function": {"name": "weather", "description": "tells", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}`)
	require.Contains(t, prompt, "Be short.")
	require.Contains(t, prompt, `I look.<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call><tool_call>{"name": "weather", "arguments": {}}</tool_call><|im_end|>`)
	require.Contains(t, prompt, "rain")
	require.Len(t, r.Output, 3)
	require.Equal(t, "Let me look.", r.Output[1].Content[0].Text)
	call := r.Output[2]
	require.Equal(t, []string{"function_call", "weather", `{"city":"Köln"}`, "completed"}, []string{call.Type, call.Name, *call.Arguments, call.Status})
	require.Regexp(t, "^call_", call.CallID)
	require.Equal(t, "weather", r.Tools[0].Name)
	for more, want := range map[string]bool{`"strict":true,`: true, `"strict":false,`: false, `"strict":null,`: false, "": false} {
		r := s.respond(`{` + strings.Replace(body, `"strict":true,`, more, 1) + `}`)
		<-prompts
		require.NotNil(t, r.Tools[0].Strict, more)
		require.Equal(t, want, *r.Tools[0].Strict, more)
	}

	var arguments string
	for _, e := range s.responseEvents(`{"stream":true,` + body + `}`) {
		switch e.Type {
		case "response.output_item.added":
			if *e.Output == 2 {
				require.Empty(t, *e.Item.Arguments)
			}
		case "response.function_call_arguments.delta":
			require.Equal(t, 2, *e.Output)
			arguments += *e.Delta
		case "response.function_call_arguments.done":
			require.Equal(t, arguments, *e.Arguments)
		}
	}
	require.Equal(t, `{"city":"Köln"}`, arguments)
}

// What a response cannot be is an error that names the field of this API.
func TestRefusedResponses(t *testing.T) {
	s := start(t, func(m *loaded) { m.tools = true })
	for body, param := range map[string]string{
		`"input":"Hi","previous_response_id":"resp_1"`: "previous_response_id",
		`"input":"Hi","conversation":"c"`:              "conversation",
		`"input":"Hi","background":true`:               "background",
		`"input":"Hi","prompt":{"id":"p"}`:             "prompt",
		`"input":"Hi","top_logprobs":2`:                "top_logprobs",
		`"input":"Hi","truncation":"auto"`:             "truncation",
		`"input":"Hi","include":["reasoning.encrypted_content","message.output_text.logprobs"]`: "include",
		`"input":"Hi","n":2`:                                                                                 "n",
		`"input":"Hi","max_output_tokens":0`:                                                                 "max_output_tokens",
		`"input":"Hi","text":{"format":{"type":"xml"}}`:                                                      "text.format.type",
		`"input":"Hi","text":{"format":{"type":"json_schema"}}`:                                              "text.format.schema",
		`"input":"Hi","text":{"format":{"type":"json_schema","schema":{"not":true}}}`:                        "text.format",
		`"input":"Hi","tools":[{"type":"web_search"}]`:                                                       "tools.0.type",
		`"input":"Hi","tools":[{"type":"function"}]`:                                                         "tools.0",
		`"input":"Hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"x"}`:                   "tool_choice",
		`"input":"Hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}`: "tool_choice",
		`"model":"x","input":"Hi"`:                                                                           "model",
		`"tools":[]`:                                                                                         "input",
		`"input":[]`:                                                                                         "input",
		`"input":7`:                                                                                          "input",
		`"input":[{"role":"robot","content":"Hi"}]`:                                                          "input.0.role",
		`"input":[{"role":"user","content":[{"type":"input_image"}]}]`:                                       "input.0.content",
		`"input":[{"type":"item_reference","id":"x"}]`:                                                       "input.0.type",
		`"input":[{"type":"function_call","name":"f","arguments":"7"}]`:                                      "input.0.arguments",
		`"input":"` + strings.Repeat("Hi ", 5000) + `"`:                                                      "input",
	} {
		a := s.post("/v1/responses", `{`+body+`}`)
		require.GreaterOrEqual(t, a.status, 400, body)
		require.Less(t, a.status, 500, body)
		require.Equal(t, param, a.Error.Param, "%.200s: %s", body, a.Error.Message)
		require.True(t, strings.HasPrefix(a.Error.Message, param) || param == "model", a.Error.Message)
	}
}
