package api

import (
	"bufio"
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// message sends a request to /v1/messages.
func (s service) message(body string) (a anthropicAnswer) {
	s.Helper()
	s.into("/v1/messages", body, &a)
	return a
}

// messageEvents sends a request for a stream, and returns its events and the answer that they build up.
func (s service) messageEvents(body string) (types []string, a anthropicAnswer) {
	s.Helper()
	answer := s.request(s.Context(), "/v1/messages", body)
	require.Equal(s, "text/event-stream", answer.Header.Get("Content-Type"))
	name, arguments := "", ""
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			name = strings.TrimPrefix(lines.Text(), "event: ") + name
			continue
		}
		var e anthropicEvent
		require.NoError(s, json.Unmarshal([]byte(data), &e), data)
		require.Equal(s, name, e.Type)
		name = ""
		if types = append(types, e.Type); len(types) > 1 && types[len(types)-2] == e.Type {
			types = types[:len(types)-1]
		}
		switch e.Type {
		case "message_start":
			a = *e.Message
		case "content_block_start":
			require.Equal(s, len(a.Content), *e.Index)
			a.Content = append(a.Content, e.Block)
		case "content_block_delta":
			require.Equal(s, len(a.Content)-1, *e.Index)
			switch last := a.Content[*e.Index]; e.Delta.Type {
			case "text_delta":
				*last.Text += *e.Delta.Text
			case "thinking_delta":
				*last.Thinking += *e.Delta.Thinking
			case "input_json_delta":
				arguments += *e.Delta.JSON
			}
		case "content_block_stop":
			if arguments != "" {
				a.Content[*e.Index].Input, arguments = []byte(arguments), ""
			}
		case "message_delta":
			a.StopReason, a.Usage = e.Delta.StopReason, *e.Usage
			require.Contains(s, data, `"stop_sequence":`)
			require.Contains(s, data, `"cache_creation_input_tokens":0`)
			require.NoError(s, json.Unmarshal(e.Delta.Stop, &a.Stop))
		}
	}
	return types, a
}

// A message has thoughts only if they are asked for, and says why it ended, whole and as a stream.
func TestAnthropic(t *testing.T) {
	s := start(t, nil)
	const thinking = `"thinking":{"type":"enabled","budget_tokens":1024},`
	for more, want := range map[string]struct {
		thought      bool
		text, reason string
		stop         string
	}{
		"":                                 {false, name, "end_turn", ""},
		thinking:                           {true, name, "end_turn", ""},
		`"stop_sequences":["tiny","zzz"],`: {false, "My name is Mote. I am a ", "stop_sequence", "tiny"},
		`"thinking":{"type":"disabled"},"top_k":1,`: {false, name, "end_turn", ""},
	} {
		body := `{` + more + `"model":"mote-4bit","max_tokens":100,"temperature":0,"messages":[{"role":"user","content":"Hi what is your name"}]}`
		a := s.message(body)
		require.Regexp(t, "^msg_", a.ID)
		require.Equal(t, []string{"message", "assistant", "mote-4bit"}, []string{a.Type, a.Role, a.Model})
		require.Equal(t, want.reason, *a.StopReason, more)
		require.Equal(t, optional(want.stop), a.Stop)
		require.Equal(t, want.text, *a.Content[len(a.Content)-1].Text)
		require.Equal(t, want.thought, len(a.Content) == 2)
		if want.thought {
			require.Equal(t, "thinking", a.Content[0].Type)
			require.Contains(t, *a.Content[0].Thinking, "asked for my name")
		}
		require.GreaterOrEqual(t, a.Usage.Input, 13)
		require.Positive(t, a.Usage.Output)
		types, streamed := s.messageEvents(`{"stream":true,` + body[1:])
		require.NotEqual(t, a.ID, streamed.ID)
		streamed.ID = a.ID
		require.Equal(t, a, streamed)
		block := []string{"content_block_start", "content_block_delta", "content_block_stop"}
		require.Equal(t, slices.Concat([]string{"message_start"}, slices.Repeat(block, len(a.Content)), []string{"message_delta", "message_stop"}), types)
	}
	a := s.message(`{"max_tokens":3,"temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"Hi what is your name"}]}]}`)
	require.Equal(t, "max_tokens", *a.StopReason)
	// The last message of the assistant is continued.
	a = s.message(`{"max_tokens":50,"temperature":0,"messages":[{"role":"user","content":"Hi what is your name"},{"role":"assistant","content":"<think>\n\n</think>\n\nMy name is"}]}`)
	require.Equal(t, strings.TrimPrefix(name, "My name is"), *a.Content[0].Text)
	// An empty one has nothing to continue.
	for _, content := range []string{`""`, `[]`, `[{"type":"text","text":""}]`} {
		a = s.message(`{"max_tokens":50,"temperature":0,"messages":[{"role":"user","content":"Hi what is your name"},{"role":"assistant","content":` + content + `}]}`)
		require.Equal(t, name, *a.Content[0].Text)
	}
	var counted struct {
		Tokens int `json:"input_tokens"`
	}
	s.into("/v1/messages/count_tokens", `{"thinking":{"type":"enabled"},"messages":[{"role":"user","content":"Hi what is your name"}]}`, &counted)
	require.Equal(t, 13, counted.Tokens)
	a = s.message(`{"max_tokens":60,"temperature":0,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"enum":["x"]}},"required":["a"]}}},"messages":[{"role":"user","content":"Hi"}]}`)
	require.JSONEq(t, `{"a":"x"}`, *a.Content[0].Text)
}

// Tools, their calls and their results go through the chat template, and calls are blocks.
func TestAnthropicTools(t *testing.T) {
	prompts := make(chan string, 10)
	s := start(t, withTools(t, prompts, "<think>\nThe sky.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\", \"city\": \"Rom\"}}\n</tool_call>"))
	const body = `"max_tokens":100,"system":[{"type":"text","text":"Be brief."}],"tools":[{"name":"weather","description":"The weather.","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}],` +
		`"messages":[{"role":"user","content":"Rain?"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"text","text":"One moment."},{"type":"tool_use","id":"c1","name":"weather","input":{"city":"Bonn"}},{"type":"tool_use","id":"c2","name":"weather","input":null}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"dry"}]},{"type":"text","text":"And there?"}]}]}`
	a := s.message(`{` + body)
	prompt := <-prompts
	for _, want := range []string{`"name": "weather"`, "Be brief.", "user\nRain?", `One moment.<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call><tool_call>{"name": "weather", "arguments": {}}</tool_call>`, "tool\ndry", "user\nAnd there?"} {
		require.Contains(t, prompt, want)
		prompt = prompt[strings.Index(prompt, want):]
	}
	require.Equal(t, "tool_use", *a.StopReason)
	require.Len(t, a.Content, 3)
	require.Equal(t, "Let me look.", *a.Content[1].Text)
	call := a.Content[2]
	require.Equal(t, []string{"tool_use", "weather"}, []string{call.Type, call.Name})
	require.NotEmpty(t, call.ID)
	require.JSONEq(t, `{"city":"Rom"}`, string(call.Input))
	_, streamed := s.messageEvents(`{"stream":true,` + body)
	require.JSONEq(t, string(call.Input), string(streamed.Content[2].Input))
	require.Equal(t, "tool_use", *streamed.StopReason)
}

// Errors have Anthropic's form, also those that come before the request is read, and those that end a stream.
func TestAnthropicErrors(t *testing.T) {
	s := start(t, func(m *loaded) { m.tools = true }, func(c *setting) { c.Key = "secret" })
	post := func(key, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/messages", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Key", key)
		response, err := s.http.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		var e struct {
			Type  string
			Error struct{ Type, Message string }
		}
		require.NoError(t, json.UnmarshalRead(response.Body, &e, json.MatchCaseInsensitiveNames(true)))
		require.Equal(t, "error", e.Type)
		require.NotEmpty(t, response.Header.Get("Request-Id"))
		return response.StatusCode, e.Error.Type + ": " + e.Error.Message
	}
	status, text := post("wrong", `{}`)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, "authentication_error: ")
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for body, want := range map[string]string{
		`{`:                                    "JSON",
		`{"messages":[]}`:                      "messages: there are none",
		`{"system":"x","messages":[]}`:         "messages: there are none",
		`{"max_tokens":0,` + hi + `}`:          "max_tokens: ",
		`{"mcp_servers":[{}],` + hi + `}`:      "mcp_servers: unsupported",
		`{"container":"x",` + hi + `}`:         "container: unsupported",
		`{"n":2,` + hi + `}`:                   "n: unsupported",
		`{"thinking":{"type":"x"},` + hi + `}`: "thinking.type: ",
		`{"output_format":{"type":"json_object"},` + hi + `}`:           "output_format: ",
		`{"tools":[{"type":"bash_20250124","name":"bash"}],` + hi + `}`: "tools.0.type: unsupported",
		`{"tool_choice":{"type":"x"},` + hi + `}`:                       "tool_choice.type: ",
		`{"tool_choice":{"type":"tool","name":"x"},` + hi + `}`:         "tool_choice: there is no tool",
		`{"messages":[{"role":"system","content":"x"}]}`:                "messages.0.role: ",
		`{"messages":[{"role":"user","content":[{"type":"image"}]}]}`:   "messages.0.content.0.type: unsupported",
		`{"system":"x","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"y"},{"type":"tool_use","name":"f","input":"{}"}]}]}`: "messages.1.content.1.input: not an object",
		`{"messages":[{"role":"user"},{"role":"user","content":"x"}]}`: "messages.0.content: there is none",
		`{"stop_sequences":[""],` + hi + `}`:                           "stop_sequences: an empty text",
		`{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hm"}],"output_format":{"type":"json_schema","schema":{"type":"object"}}}`:                                         "messages: unsupported: the required form",
		`{"output_config":{"format":{"type":"json_schema","schema":{"type":"nothing"}}},"output_format":{"type":"json_schema","schema":{"type":"object"}},"thinking":{"type":"disabled"},` + hi + `}`: "output_config.format: ",
		`{"typical_p":0.5,` + hi + `}`: "typical_p: unsupported",
	} {
		status, text := post("secret", body)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, text, "invalid_request_error: ", body)
		require.Contains(t, text, want, body)
	}
	status, text = post("secret", `{"model":"other",`+hi+`}`)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, text, "not_found_error: ")
	s.model.Load().submit = func(context.Context, engine.Request, int) ([]stream, error) { return nil, engine.ErrBusy }
	_, text = post("secret", `{`+hi+`}`)
	require.Contains(t, text, "rate_limit_error: ")

	failing := start(t, script(func(context.Context, engine.Request) iter.Seq[string] {
		return func(yield func(string) bool) {
			yield("word")
			panic("while it answers")
		}
	}))
	types, a := failing.messageEvents(`{"stream":true,` + hi + `}`)
	require.Equal(t, "error", types[len(types)-1])
	require.Equal(t, "word", *a.Content[0].Text)
}
