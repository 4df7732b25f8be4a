package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
)

func TestCompletions(t *testing.T) {
	s := start(t, nil)
	a := s.post("/v1/completions", `{"prompt":["One two","Hello"],"n":2,"max_tokens":5,"temperature":0}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "text_completion", a.Object)
	require.Len(t, a.Choices, 4)
	for i, c := range a.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, "length", c.Finish)
		require.Equal(t, a.Choices[i/2*2].Text, c.Text)
	}
	require.Equal(t, 20, a.Usage.Completion)
	// The same from tokens, streamed: each choice's pieces are its text.
	ids, err := s.model.Load().folder.EncodeText(t.Context(), "One two")
	require.NoError(t, err)
	events := s.events("/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":5,"temperature":0,"stream":true,"n":2}`, strings.Join(strings.Fields(fmt.Sprint(ids)), ",")))
	text := [2]string{}
	for _, e := range events {
		text[e.Choices[0].Index] += e.Choices[0].Text
	}
	require.Equal(t, [2]string{a.Choices[0].Text, a.Choices[0].Text}, text)
	// OpenAI's default is 16 tokens.
	require.Equal(t, 16, s.post("/v1/completions", `{"prompt":"Hello","temperature":0}`).Usage.Completion)
}

// The choices of a prompt are one request of the engine: all of them are taken, or none.
func TestChoices(t *testing.T) {
	type asked struct {
		prompt []int
		n      int
		seed   uint64
	}
	var got []asked
	s := start(t, func(m *loaded) {
		submit := m.submit
		m.submit = func(ctx context.Context, r engine.Request, n int) ([]stream, error) {
			got = append(got, asked{r.Prompt, n, r.Sampling.Seed})
			return submit(ctx, r, n)
		}
	}, func(c *setting) { c.engine.Queue = 6 })
	ids := s.model.Load().folder.EncodeText
	one, err := ids(t.Context(), "One two")
	require.NoError(t, err)
	two, err := ids(t.Context(), "Hello")
	require.NoError(t, err)
	a := s.post("/v1/completions", `{"prompt":["One two","Hello"],"n":3,"max_tokens":2,"seed":7}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Len(t, a.Choices, 6)
	require.Equal(t, []asked{{one, 3, 7}, {two, 3, 10}}, got)
	a = s.post("/v1/completions", `{"prompt":"Hello","n":7}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "n: 7 are more than the 6 that may wait here", a.Error.Message)
	// Four run and six wait, and to try again would not change that.
	a = s.post("/v1/completions", `{"prompt":["a","b","c"],"n":4}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Empty(t, a.header.Get("Retry-After"))
	require.Equal(t, "n: 4 for each of 3 prompts are more than the 10 that may run or wait here", a.Error.Message)
	require.Equal(t, http.StatusOK, s.post("/v1/completions", `{"prompt":["a","b"],"n":5,"max_tokens":1}`).status)
}

// A stream begins with the roles of all choices in order, as OpenAI's client for Python requires.
func TestOrderOfRoles(t *testing.T) {
	s := start(t, nil)
	for i, e := range s.events("/v1/chat/completions", `{"stream":true,"n":8,"max_tokens":1,`+question+`}`)[:8] {
		require.Equal(t, i, e.Choices[0].Index)
		require.Equal(t, "assistant", e.Choices[0].Delta.Role)
	}
}

// A seed repeats an answer; without one, answers differ, and so do choices.
func TestSeeds(t *testing.T) {
	s := start(t, nil)
	ask := func(more string) answered {
		return s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Tell me a story."}],"temperature":2,"top_p":1,"top_k":-1,"n":4,"max_tokens":40`+more+`}`)
	}
	one, two := ask(`,"seed":7`), ask(`,"seed":7`)
	require.Equal(t, one.Choices, two.Choices)
	require.NotEqual(t, one.Choices[0].Message, one.Choices[1].Message)
	// The model is so sure of some answers that two of them are sometimes the same; all four are not.
	require.NotEqual(t, ask("").Choices, ask("").Choices)
}

// An explicit top_p of 0 leaves the likeliest token, at any temperature.
func TestTopPZero(t *testing.T) {
	s := start(t, nil)
	ask := func(more string) string {
		a := s.post("/v1/completions", `{"prompt":"One two","max_tokens":20,`+more+`}`)
		require.Equal(t, http.StatusOK, a.status)
		return a.Choices[0].Text
	}
	require.Equal(t, ask(`"temperature":0`), ask(`"temperature":100,"top_k":0,"top_p":0`))
}

func TestStopAndLimit(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.MaxTokens = 20 })
	quick := `,"chat_template_kwargs":{"enable_thinking":false},` + question + `}`
	for _, body := range []string{`{"stop":" tiny"` + quick, `{"stop":["never","tiny"," tiny"],"reasoning_effort":"none"` + quick} {
		a := s.post("/v1/chat/completions", body)
		require.Equal(t, "My name is Mote. I am a", a.Choices[0].Message.Content)
		require.Equal(t, "stop", a.Choices[0].Finish)
	}
	for _, body := range []string{`{"max_tokens":3` + quick, `{"max_completion_tokens":3` + quick} {
		a := s.post("/v1/chat/completions", body)
		require.Equal(t, "length", a.Choices[0].Finish)
		require.Equal(t, 3, a.Usage.Completion)
	}
	// -1 is no limit, as for llama.cpp's server.
	for _, body := range []string{`{"max_tokens":-1,"min_tokens":2` + quick, `{"max_tokens":3,"max_completion_tokens":-1` + quick} {
		a := s.post("/v1/chat/completions", body)
		require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
		require.Equal(t, name, a.Choices[0].Message.Content)
		require.Equal(t, "stop", a.Choices[0].Finish)
	}
	a := s.post("/v1/completions", `{"prompt":"Hello","temperature":0,"max_tokens":-1,"ignore_eos":true,"stop_token_ids":[]}`)
	require.Equal(t, 20, a.Usage.Completion, "as many as the server allows")
}

// The last message is continued: its text is neither repeated nor ended, and its thoughts go on.
func TestContinuedMessages(t *testing.T) {
	s := start(t, nil)
	ask := func(last, more string) answered {
		return s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi what is your name"},`+last+`],"temperature":0,"max_tokens":60,"continue_final_message":true`+more+`}`)
	}
	a := ask(`{"role":"assistant","content":"<think>\n\n</think>\n\nMy name is"}`, `,"add_generation_prompt":false`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	require.Equal(t, answeredFields{Role: "assistant", Content: strings.TrimPrefix(name, "My name is")}, a.Choices[0].Message)
	require.Equal(t, "stop", a.Choices[0].Finish)
	a = ask(`{"role":"assistant","content":"<think>\nOkay, the user asked for"}`, "")
	require.Equal(t, answeredFields{Role: "assistant", Content: name, Reasoning: " my name. I should tell them who I am."}, a.Choices[0].Message)
	for _, last := range []string{
		`{"role":"user","content":"x"}`,
		`{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f"}}]}`,
		`{"role":"assistant","content":"x"}],"add_generation_prompt":true,"stop":["x"`,
		`{"role":"assistant","content":"x"}],"response_format":{"type":"json_object"},"stop":["x"`,
	} {
		a = ask(last, "")
		require.Equal(t, http.StatusBadRequest, a.status, last)
		require.Equal(t, "continue_final_message", a.Error.Param, last)
	}
	// Without a generation prompt, the model begins the turn by itself.
	a = s.post("/v1/chat/completions", `{"add_generation_prompt":false,"max_tokens":5,`+question+`}`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	require.Less(t, a.Usage.Prompt, 13)
}

// Options of the server: answers without thoughts, and no longer than allowed.
func TestServerDefaults(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.NoThink, c.MaxTokens, c.Name, c.engine.Context = true, 4, "mine", 64 })
	a := s.post("/v1/chat/completions", `{"model":"mine","max_tokens":50,`+question+`}`)
	require.Equal(t, "mine", a.Model)
	require.Equal(t, 4, a.Usage.Completion)
	require.Equal(t, "My name is Mote", a.Choices[0].Message.Content)
	a = s.post("/v1/chat/completions", `{"chat_template_kwargs":{"enable_thinking":true},`+question+`}`)
	require.NotEmpty(t, a.Choices[0].Message.Reasoning)
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("one ", 70) + `"}]}`
	a = s.post("/v1/chat/completions", long)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "context_length_exceeded", a.Error.Code)
}

func TestModelsAndProbes(t *testing.T) {
	s := start(t, nil)
	for path, want := range map[string]string{
		"/v1/models": `"id":"mote-4bit"`, "/v1/models/mote-4bit": `"max_model_len":4096`,
		"/healthz": "ok", "/health": "ready", "/readyz": "ready",
	} {
		status, body := s.get(path)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, body, want, path)
	}
	for _, path := range []string{"/v1/models/other", "/v1/nothing", "/"} {
		status, body := s.get(path)
		require.Equal(t, http.StatusNotFound, status, path)
		if strings.HasPrefix(path, "/v1") {
			require.Contains(t, body, `"type":"invalid_request_error"`)
		}
	}
	status, body := s.get("/v1/chat/completions")
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Contains(t, body, `takes POST, not GET`)
	s.model.Load().name = "Qwen/Qwen3-4B"
	status, body = s.get("/v1/models/Qwen/Qwen3-4B")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"id":"Qwen/Qwen3-4B"`)
	s.model.Load().name = "mote-4bit"
	status, body = s.get("/foo%ff")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, `"error"`)
	s.post("/v1/completions", `{"prompt":"Hello","temperature":0}`)
	require.Equal(t, 1, s.metrics.of("POST /v1/completions", http.StatusOK))
	require.Equal(t, 3, s.metrics.of("other", http.StatusNotFound))
	require.Equal(t, 1, s.metrics.of("other", http.StatusMethodNotAllowed))
	require.Equal(t, 1, s.metrics.firsts)
	require.Len(t, s.metrics.tokenTimes, 1)
}

// Requests without a path are counted as those of unknown paths.
func TestRequestsWithoutAPath(t *testing.T) {
	s := start(t, nil)
	for _, line := range []string{"GET * HTTP/1.1", "CONNECT x:1 HTTP/1.1"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(c, line+"\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	total := 0
	for route, n := range s.metrics.requests {
		require.True(t, strings.HasPrefix(route, "other "), route)
		total += n
	}
	require.Equal(t, 2, total)
}

// A wrong request gets a 4xx that names the reason.
func TestBadRequests(t *testing.T) {
	s := start(t, func(m *loaded) { m.tools = true })
	chats := map[string]string{
		``:              "not valid JSON",
		`{`:             "not valid JSON",
		`[]`:            "the body: an array is wrong",
		`{"n":1,"n":2}`: "duplicate",
		"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}": "UTF-8",
		`{}`:              "messages: there are none",
		`{"messages":{}}`: "messages: an object is wrong",
		`{"messages":[{"role":"user","content":3}]}`:                               "messages.0.content: this number is wrong",
		`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`:          `messages.0.content: unsupported: a part of type "image_url"`,
		`{"messages":[{"role":"robot","content":"x"}]}`:                            `messages.0.role: "robot"`,
		`{"messages":[{"role":"user","content":""}]}`:                              "messages: invalid prompt: empty",
		`{"temperature":NaN,` + question + `}`:                                     "not valid JSON",
		`{"messages":[],"temperature":1e999}`:                                      "temperature",
		`{"model":"gpt",` + question + `}`:                                         `there is no "gpt"`,
		`{"top_p":1.5,` + question + `}`:                                           "top_p: 1.5",
		`{"top_p":"1",` + question + `}`:                                           "top_p: a string is wrong",
		`{"min_p":-1,` + question + `}`:                                            "min_p: -1",
		`{"top_k":-2,` + question + `}`:                                            "top_k: -2",
		`{"top_k":1.5,` + question + `}`:                                           "top_k",
		`{"n":0,` + question + `}`:                                                 "n: 0",
		`{"n":1000,` + question + `}`:                                              "n: 1000",
		`{"max_tokens":0,` + question + `}`:                                        "max_tokens: 0",
		`{"max_tokens":-2,` + question + `}`:                                       "max_tokens: -2",
		`{"max_completion_tokens":-2,` + question + `}`:                            "max_completion_tokens: -2",
		`{"stop":"",` + question + `}`:                                             "stop: an empty text",
		`{"stop":[1],` + question + `}`:                                            "stop",
		`{"stop":"` + strings.Repeat("x", 2000) + `",` + question + `}`:            "stop: more than",
		`{"stream":1,` + question + `}`:                                            "stream: this number is wrong",
		`{"chat_template_kwargs":{"a":{}},` + question + `}`:                       "chat_template_kwargs.a",
		`{"chat_template_kwargs":{"a":"<|im_end|>"},` + question + `}`:             "special tokens",
		`{"tools":[{"type":"function"}],` + question + `}`:                         "tools.0: no function",
		`{"tools":[3],` + question + `}`:                                           "tools.0",
		`{"tools":[{"function":{"name":"f"}},null],` + question + `}`:              "tools: ",
		`{"tools":{},` + question + `}`:                                            "tools: ",
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":"x",` + question + `}`: "tool_choice",
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"no"}}]}]}`:                                                                                                                    "messages.0.tool_calls.0.function.arguments",
		`{"messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}]}`:                                                                                                                                               "messages.0.function_call: unsupported",
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","audio":{"id":"a"}}]}`:                                                                                                                                            "messages.1.audio: unsupported",
		`{"messages":[{"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"f","input":"x"}}]}]}`:                                                                                                                          "messages.0.tool_calls.0.type: unsupported",
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"custom","custom":{"name":"f"}},` + question + `}`:                                                                                                                    `tool_choice: unsupported: "custom"`,
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}},` + question + `}`:                                                                                        "tool_choice: there are no tools in allowed_tools",
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[]}},` + question + `}`:                                                                                                      `tool_choice: the mode "" of allowed_tools`,
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}},` + question + `}`: `tool_choice: there is no tool "g"`,
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"custom"}]}},` + question + `}`:                                                                       `tool_choice: unsupported: "custom"`,
		`{"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","name":"f"},` + question + `}`:                                                                                                                             "tool_choice: no function with a name",
		`{"functions":[],` + question + `}`:                                     "functions: unsupported",
		`{"audio":{},` + question + `}`:                                         "audio: unsupported",
		`{"stop_token_ids":[-1],` + question + `}`:                              "stop_token_ids: -1",
		`{"stop_token_ids":[99999],` + question + `}`:                           "stop_token_ids: 99999",
		`{"repeat_penalty":-1,` + question + `}`:                                "repeat_penalty: -1",
		`{"repeat_penalty":1.1,"repetition_penalty":1.2,` + question + `}`:      "repeat_penalty: 1.1",
		`{"typical_p":0.9,` + question + `}`:                                    "typical_p: unsupported: use temperature",
		`{"mirostat":2,` + question + `}`:                                       "mirostat: unsupported",
		`{"use_beam_search":true,` + question + `}`:                             "use_beam_search: unsupported",
		`{"skip_special_tokens":false,` + question + `}`:                        "skip_special_tokens: unsupported",
		`{"best_of":2,` + question + `}`:                                        "best_of: unsupported",
		`{"chat_template":"x",` + question + `}`:                                "chat_template: unsupported",
		`{"n_predict":5,` + question + `}`:                                      "n_predict: unsupported: use max_tokens",
		`{"web_search_options":{},` + question + `}`:                            "web_search_options: unsupported",
		`{"n_probs":3,` + question + `}`:                                        "n_probs: unsupported",
		`{"post_sampling_probs":true,` + question + `}`:                         "post_sampling_probs: unsupported",
		`{"repeat_last_n":64,"repeat_penalty":1.1,` + question + `}`:            "repeat_last_n: unsupported",
		`{"t_max_predict_ms":5,` + question + `}`:                               "t_max_predict_ms: unsupported",
		`{"lora":[{"id":0,"scale":1}],` + question + `}`:                        "lora: unsupported",
		`{"thinking_budget_tokens":0,` + question + `}`:                         "thinking_budget_tokens: unsupported",
		`{"reasoning_budget":0,` + question + `}`:                               "reasoning_budget: unsupported",
		`{"thinking_token_budget":10,` + question + `}`:                         "thinking_token_budget: unsupported",
		`{"modalities":["text","audio"],` + question + `}`:                      "modalities: unsupported",
		`{"include_reasoning":false,` + question + `}`:                          "include_reasoning: unsupported",
		`{"stop_regex":"a+",` + question + `}`:                                  "stop_regex: unsupported",
		`{"logprob_token_ids":[1],` + question + `}`:                            "logprob_token_ids: unsupported",
		`{"detokenize":false,` + question + `}`:                                 "detokenize: unsupported",
		`{"structural_tag":{},` + question + `}`:                                "structural_tag: unsupported",
		`{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`: "depth",
	}
	texts := map[string]string{
		`{}`:                                 "prompt: there is none",
		`{"prompt":""}`:                      "empty",
		`{"prompt":[]}`:                      "prompt",
		`{"prompt":[-1]}`:                    "token -1",
		`{"prompt":[999999]}`:                "token 999999",
		`{"prompt":[1,null]}`:                "prompt: ",
		`{"prompt":[[1],null]}`:              "prompt: ",
		`{"prompt":{"a":1}}`:                 "prompt: ",
		`{"prompt":"x","echo":true}`:         "echo: unsupported",
		`{"prompt":"x","suffix":"y"}`:        "suffix: unsupported",
		`{"prompt":"x","best_of":2}`:         "best_of: unsupported",
		`{"prompt":"x","prompt_logprobs":0}`: "prompt_logprobs: unsupported",
		`{"prompt":["x","y"],"n":32}`:        "n: 32 for each of 2",
	}
	for path, bodies := range map[string]map[string]string{"/v1/chat/completions": chats, "/v1/completions": texts} {
		for body, want := range bodies {
			a := s.post(path, body)
			require.GreaterOrEqual(t, a.status, 400, body)
			require.Less(t, a.status, 500, body)
			require.NotNil(t, a.Error, body)
			require.Contains(t, a.Error.Message, want, body)
			require.Equal(t, "invalid_request_error", a.Error.Type)
			require.Equal(t, strings.Contains(want, "unsupported"), a.Error.Code == "unsupported", body)
			require.NotEmpty(t, a.header.Get("X-Request-Id"))
		}
	}
	// Unknown fields, and null for known ones, are not errors.
	a := s.post("/v1/chat/completions", `{"user":"me","store":false,"metadata":{"a":[1]},"stop":null,"n":null,"logit_bias":null,"tools":null,"stream_options":null,"seed":-1,"tool_choice":"none","max_tokens":1,`+question+`}`)
	require.Equal(t, http.StatusOK, a.status)
	// Values that ask for what is done anyway are not, either: clients send them with every request.
	a = s.post("/v1/chat/completions", `{"typical_p":1,"tfs_z":1.0,"mirostat":0,"top_n_sigma":-1,"use_beam_search":false,"skip_special_tokens":true,"best_of":1,"bad_words":[ ],"grammar":"","guided_json":null,"repeat_penalty":1,"cache_prompt":true,"n_probs":0,"post_sampling_probs":false,"repeat_last_n":64,"t_max_predict_ms":-1,"lora":[],"thinking_budget_tokens":-1,"modalities":["text"],"include_reasoning":true,"stop_regex":[""],"detokenize":true,"structural_tag":null,"max_tokens":1,`+question+`}`)
	require.Equal(t, http.StatusOK, a.status, "%+v", a.Error)
	response, err := s.http.Client().Post(s.url+"/v1/completions", "text/plain", strings.NewReader(`{}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnsupportedMediaType, s.read(response).status)
}

// Usage tells how many tokens of the prompt were in the cache, for all choices once.
func TestCachedTokens(t *testing.T) {
	s := start(t, nil)
	ask := `"temperature":0,"max_tokens":2,"n":2,"messages":[{"role":"system","content":"` + strings.Repeat("one two ", 100) + `"},{"role":"user","content":"Hi"}]}`
	first := s.post("/v1/chat/completions", `{`+ask)
	again := s.post("/v1/chat/completions", `{`+ask)
	require.Zero(t, first.Usage.PromptDetails.Cached)
	pages := (again.Usage.Prompt - 1) / 64
	require.Positive(t, pages)
	require.Equal(t, 64*pages, again.Usage.PromptDetails.Cached)
	events := s.events("/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},`+ask)
	require.Equal(t, 64*pages, events[len(events)-1].Usage.PromptDetails.Cached)
}

// The log has requests to the API and to unknown paths, and at level Debug those of probes.
func TestLogLevels(t *testing.T) {
	s := start(t, nil)
	for path, level := range map[string]string{"/v1/models": "INFO", "/nothing": "INFO", "/readyz": "DEBUG", "/healthz": "DEBUG"} {
		s.get(path)
		require.Eventually(t, func() bool { return strings.Contains(s.said.String(), "path="+path) }, time.Minute, time.Millisecond)
		require.Regexp(t, "level="+level+" [^\n]*path="+path, s.said.String())
	}
	s.post("/tokenize", `{"prompt":"x"}`)
	require.Eventually(t, func() bool { return strings.Contains(s.said.String(), "path=/tokenize") }, time.Minute, time.Millisecond)
	require.Regexp(t, "level=INFO [^\n]*path=/tokenize", s.said.String())
}
