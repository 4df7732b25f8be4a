package api

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// responseRequest is the body of /v1/responses. The fields without an effect are those that the answer repeats.
type responseRequest struct {
	common
	Input             responseInput  `json:"input"`
	Instructions      string         `json:"instructions"`
	MaxOutputTokens   *int           `json:"max_output_tokens"`
	Tools             []responseTool `json:"tools"`
	ToolChoice        jsontext.Value `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	Reasoning         struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
		Format jsontext.Value `json:"format"` // a textFormat
	} `json:"text"`
	TemplateArguments map[string]jsontext.Value `json:"chat_template_kwargs"`
	Metadata          map[string]string         `json:"metadata"`

	Previous     string         `json:"previous_response_id"`
	Conversation jsontext.Value `json:"conversation"`
	Prompt       jsontext.Value `json:"prompt"`
	Background   bool           `json:"background"`
	TopLogprobs  int            `json:"top_logprobs"`
}

// textFormat is the form of an answer.
type textFormat struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

// responseTool is a function in the form of this API.
type responseTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
	Strict      *bool          `json:"strict,omitzero"`
}

// nested returns the tool in the form for chats. Its members have the order that models have seen.
func (t responseTool) nested() ([]byte, error) {
	function, err := json.Marshal(struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters,omitzero"`
	}{t.Name, t.Description, t.Parameters})
	return []byte(`{"type":"function","function":` + string(function) + `}`), err
}

// responseInput is a conversation. A text is one message of the user.
type responseInput []inputItem

// inputItem is a message, a call of a tool, its output, or thoughts before these.
type inputItem struct {
	Type      string      `json:"type"`
	Role      string      `json:"role"`
	Content   itemContent `json:"content"`
	CallID    string      `json:"call_id"`
	Name      string      `json:"name"`
	Arguments string      `json:"arguments"`
	Output    itemContent `json:"output"`
}

// UnmarshalJSON accepts a string or an array of items.
func (i *responseInput) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() != '"' {
		return json.Unmarshal(data, (*[]inputItem)(i))
	}
	var text string
	err := json.Unmarshal(data, &text)
	*i = responseInput{{Role: "user", Content: itemContent(text)}}
	return err
}

// itemContent is a text, which may come in parts.
type itemContent string

// UnmarshalJSON accepts a string, null, or an array of parts that are text. Those of the user are lines.
func (c *itemContent) UnmarshalJSON(data []byte) error {
	text, err := textOf(data, "\n", "input_text", "output_text", "text", "reasoning_text", "refusal")
	*c = itemContent(text)
	return err
}

// responses is POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, m *loaded, q *responseRequest) error {
	c, err := q.chat()
	if err != nil {
		return err
	}
	return s.answerIn(&responsesDialect, w, r, m, c, func(g *generation) sink {
		return &responseSink{eventWriter: eventWriter{w: w}, generation: g, request: q}
	})
}

// chat returns the request for a chat that means the same.
func (q *responseRequest) chat() (*chatRequest, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	c := &chatRequest{
		common: q.common, MaxCompletionTokens: q.MaxOutputTokens, ParallelToolCalls: q.ParallelToolCalls,
		ReasoningEffort: q.Reasoning.Effort, TemplateArguments: q.TemplateArguments,
	}
	if given(q.Text.Format) {
		var f textFormat
		if err := json.Unmarshal(q.Text.Format, &f); err != nil {
			return nil, bad("text.format", "not an object with a type")
		}
		c.ResponseFormat = &responseFormat{Type: f.Type}
		c.ResponseFormat.JSONSchema.Schema = f.Schema
		if f.Type == "json_schema" && !given(f.Schema) {
			return nil, bad("text.format.schema", "there is none")
		}
	}
	if err := q.addTools(c); err != nil {
		return nil, err
	}
	var err error
	c.Messages, err = q.messages()
	return c, err
}

// addTools adds the tools, and which of them may or must be called. The answer repeats them, and whether they are strict.
func (q *responseRequest) addTools(c *chatRequest) error {
	for i, t := range q.Tools {
		if t.Type != "function" {
			return unsupported(fmt.Sprintf("tools.%d.type", i), fmt.Sprintf("%q is not function", t.Type))
		}
		tool, err := t.nested()
		if err != nil {
			return err
		}
		c.addTool(tool, t)
		q.Tools[i].Strict = new(t.Strict != nil && *t.Strict)
	}
	c.ToolChoice = q.ToolChoice
	if q.ToolChoice.Kind() != '{' {
		return nil
	}
	var choice struct {
		responseTool
		Mode  string         `json:"mode"`
		Tools []responseTool `json:"tools"`
	}
	if err := json.Unmarshal(q.ToolChoice, &choice); err != nil {
		return bad("tool_choice", "not none, auto, required, a function or allowed_tools")
	}
	switch choice.Type {
	case "function":
		c.ToolChoice = namedTool(choice.Name)
	case "allowed_tools":
		c.ToolChoice = allowedOf(choice.Mode, choice.Tools)
	}
	return nil
}

// namedTool is a chat's tool_choice of one function.
func namedTool(name string) jsontext.Value {
	return jsontext.Value(`{"type":"function","function":{"name":` + string(quoted(name)) + `}}`)
}

// allowedOf is a chat's tool_choice of some tools.
func allowedOf(mode string, tools []responseTool) jsontext.Value {
	var list []string
	for _, t := range tools {
		list = append(list, `{"type":`+string(quoted(t.Type))+`,"function":{"name":`+string(quoted(t.Name))+`}}`)
	}
	return jsontext.Value(`{"type":"allowed_tools","allowed_tools":{"mode":` + string(quoted(mode)) + `,"tools":[` + strings.Join(list, ",") + `]}}`)
}

// addTool adds a tool in the form for chats. Templates print that, so it does not say whether the tool is strict.
func (q *chatRequest) addTool(nested []byte, t responseTool) {
	q.Tools = append(q.Tools, stdjson.RawMessage(nested))
	if t.Strict != nil && *t.Strict {
		if q.strict == nil {
			q.strict = map[string]bool{}
		}
		q.strict[t.Name] = true
	}
}

// check rejects what is not supported.
func (q *responseRequest) check() error {
	switch {
	case q.Previous != "":
		return unsupported("previous_response_id", "this server keeps no responses: send the whole conversation as input")
	case given(q.Conversation):
		return unsupported("conversation", "this server keeps no conversations: send the whole conversation as input")
	case given(q.Prompt):
		return unsupported("prompt", "this server keeps no prompts")
	case q.Background:
		return unsupported("background", "this server keeps no responses")
	case q.TopLogprobs != 0:
		return unsupported("top_logprobs", "use /v1/chat/completions")
	case first(q.N, nil, 1) != 1:
		return unsupported("n", "a response is one answer")
	case len(q.Input) == 0:
		return bad("input", "there is none")
	}
	return checkForeign(q.Others, responsesFields)
}

// messages returns the conversation as messages of a chat. Thoughts, text and calls of the assistant that follow each
// other are one message.
func (q *responseRequest) messages() (out []message, err error) {
	if q.Instructions != "" {
		out = append(out, message{Role: "system", Content: content(q.Instructions)})
	}
	last := func() *message {
		if n := len(out); n > 0 && out[n-1].Role == "assistant" {
			return &out[n-1]
		}
		out = append(out, message{Role: "assistant"})
		return &out[len(out)-1]
	}
	for i, item := range q.Input {
		param := fmt.Sprintf("input.%d.", i)
		switch cmp.Or(item.Type, "message") {
		case "message":
			if _, known := roles[item.Role]; !known || item.Role == "tool" {
				return nil, bad(param+"role", "%q is not system, developer, user or assistant", item.Role)
			}
			if item.Role != "assistant" {
				out = append(out, message{Role: item.Role, Content: content(item.Content)})
			} else if m := last(); m.Content == "" && m.ToolCalls == nil {
				m.Content = content(item.Content)
			} else {
				out = append(out, message{Role: "assistant", Content: content(item.Content)})
			}
		case "reasoning":
			out = append(out, message{Role: "assistant", Reasoning: string(item.Content)})
		case "function_call":
			call := toolCall{ID: item.CallID, Type: "function"}
			call.Function.Name, call.Function.Arguments = item.Name, item.Arguments
			if !isObject(jsontext.Value(cmp.Or(item.Arguments, "{}"))) {
				return nil, bad(param+"arguments", "not a JSON object in a string")
			}
			m := last()
			m.ToolCalls = append(m.ToolCalls, call)
		case "function_call_output":
			out = append(out, message{Role: "tool", ToolCallID: item.CallID, Content: content(item.Output)})
		default:
			return nil, unsupported(param+"type", fmt.Sprintf("%q is not message, reasoning, function_call or function_call_output", item.Type))
		}
	}
	return out, nil
}
