package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// anthropicRequest is the body of /v1/messages, the API of Anthropic. Its max_tokens is in common.
type anthropicRequest struct {
	common
	System        blockText          `json:"system"`
	Messages      []anthropicMessage `json:"messages"`
	StopSequences []string           `json:"stop_sequences"`
	Tools         []anthropicTool    `json:"tools"`
	ToolChoice    struct {
		Type    string `json:"type"` // auto, any, tool or none
		Name    string `json:"name"`
		OneCall bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking struct {
		Type string `json:"type"` // enabled, adaptive or disabled
	} `json:"thinking"`
	Output struct {
		Format *responseFormat `json:"format"`
	} `json:"output_config"`
	OutputFormat      *responseFormat           `json:"output_format"` // as earlier versions called it
	TemplateArguments map[string]jsontext.Value `json:"chat_template_kwargs"`
	Servers           jsontext.Value            `json:"mcp_servers"`
	Container         jsontext.Value            `json:"container"`
}

// anthropicTool is a function.
type anthropicTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"input_schema"`
	Strict      *bool          `json:"strict"`
}

// anthropicMessage is a message of the user or the assistant.
type anthropicMessage struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// block is a part of a message.
type block struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
	Call     string         `json:"tool_use_id"`
	Content  blockText      `json:"content"`
}

// blocks is a message's content.
type blocks []block

// UnmarshalJSON accepts a string, or an array of blocks.
func (b *blocks) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() != '"' {
		return json.Unmarshal(data, (*[]block)(b))
	}
	*b = blocks{{Type: "text"}}
	return json.Unmarshal(data, &(*b)[0].Text)
}

// blockText is a text, which may come in blocks.
type blockText string

// UnmarshalJSON accepts a string, null, or an array of blocks that are text, one after the other: clients separate those of
// system prompts themselves.
func (t *blockText) UnmarshalJSON(data []byte) error {
	text, err := textOf(data, "", "text")
	*t = blockText(text)
	return err
}

// anthropicMessages is POST /v1/messages.
func (s *Server) anthropicMessages(w http.ResponseWriter, r *http.Request, m *loaded, q *anthropicRequest) error {
	c, err := q.chat()
	if err != nil {
		return err
	}
	return s.answerIn(&anthropicDialect, w, r, m, c, func(g *generation) sink {
		return &anthropicSink{eventWriter: eventWriter{w: w}, generation: g}
	})
}

// countTokens is POST /v1/messages/count_tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request, m *loaded, q *anthropicRequest) error {
	c, err := q.chat()
	if err != nil {
		return err
	}
	ids, err := c.encode(r.Context(), m, s.options.NoThink)
	if err != nil {
		return anthropicDialect.named(err)
	}
	return writeJSON(w, http.StatusOK, struct {
		Tokens int `json:"input_tokens"`
	}{len(ids)})
}

// chat returns the request for a chat that means the same.
func (q *anthropicRequest) chat() (*chatRequest, error) {
	switch {
	case given(q.Servers):
		return nil, unsupported("mcp_servers", "this server calls no tools")
	case given(q.Container):
		return nil, unsupported("container", "this server runs nothing")
	case first(q.N, nil, 1) != 1:
		return nil, unsupported("n", "a message is one answer")
	}
	c := &chatRequest{common: q.common, TemplateArguments: q.TemplateArguments}
	c.Stop = slices.Concat(q.Stop, q.StopSequences)
	c.ParallelToolCalls = new(!q.ToolChoice.OneCall)
	switch q.Thinking.Type {
	case "enabled", "adaptive":
		c.EnableThinking = new(true)
	case "", "disabled":
		c.EnableThinking = new(false)
	default:
		return nil, bad("thinking.type", "%q is not enabled, adaptive or disabled", q.Thinking.Type)
	}
	param, f := "output_config.format", q.Output.Format
	if f == nil {
		param, f = "output_format", q.OutputFormat
	}
	if f != nil {
		if f.Type != "json_schema" || !given(f.Schema) {
			return nil, bad(param, "not a json_schema with its schema")
		}
		c.ResponseFormat = &responseFormat{Type: f.Type}
		c.ResponseFormat.JSONSchema.Schema = f.Schema
	}
	if err := cmp.Or(q.addTools(c), q.addMessages(c)); err != nil {
		return nil, err
	}
	last := len(c.Messages) - 1
	c.ContinueLast = last >= 0 && c.Messages[last].Role == "assistant" && c.Messages[last].ToolCalls == nil
	return c, nil
}

// addTools adds the tools, and which of them may or must be called.
func (q *anthropicRequest) addTools(c *chatRequest) error {
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return unsupported(fmt.Sprintf("tools.%d.type", i), fmt.Sprintf("%q is not custom", t.Type))
		}
		one := responseTool{Name: t.Name, Description: t.Description, Parameters: t.Schema, Strict: t.Strict}
		nested, err := one.nested()
		if err != nil {
			return err
		}
		c.addTool(nested, one)
	}
	switch q.ToolChoice.Type {
	case "", "auto":
	case "none":
		c.ToolChoice = jsontext.Value(`"none"`)
	case "any":
		c.ToolChoice = jsontext.Value(`"required"`)
	case "tool":
		c.ToolChoice = namedTool(q.ToolChoice.Name)
	default:
		return bad("tool_choice.type", "%q is not auto, any, tool or none", q.ToolChoice.Type)
	}
	return nil
}

// addMessages adds the messages. Results of tools are messages of their own. The last one may be an empty one of the
// assistant, in which there is nothing to continue.
func (q *anthropicRequest) addMessages(c *chatRequest) error {
	if len(q.Messages) == 0 {
		return bad("messages", "there are none")
	}
	if q.System != "" {
		c.Messages = append(c.Messages, message{Role: "system", Content: content(q.System)})
	}
	for i, m := range q.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return bad(fmt.Sprintf("messages.%d.role", i), "%q is neither user nor assistant", m.Role)
		}
		if m.Role == "user" && len(m.Content) == 0 {
			return bad(fmt.Sprintf("messages.%d.content", i), "there is none")
		}
		one, results, err := m.read(fmt.Sprintf("messages.%d.content.", i))
		if err != nil {
			return err
		}
		c.Messages = append(c.Messages, results...)
		empty := one.Content == "" && one.Reasoning == "" && one.ToolCalls == nil
		said := slices.ContainsFunc(m.Content, func(b block) bool { return b.Type == "text" })
		if said && m.Role == "user" || m.Role == "assistant" && !(empty && i == len(q.Messages)-1) {
			c.Messages = append(c.Messages, one)
		}
	}
	return nil
}

// read returns the message in the form for chats, and before it those of results of tools.
func (m *anthropicMessage) read(param string) (one message, results []message, err error) {
	one.Role = m.Role
	said := false
	for j, b := range m.Content {
		switch kind := m.Role + " " + b.Type; kind {
		case "user text", "assistant text":
			if said && m.Role == "user" { // as for parts of chats; what this server wrote is one text
				one.Content += "\n"
			}
			one.Content += content(b.Text)
			said = true
		case "assistant thinking":
			one.Reasoning += b.Thinking
		case "assistant redacted_thinking": // which no model of this server wrote
		case "assistant tool_use":
			call := toolCall{ID: b.ID, Type: "function"}
			call.Function.Name = b.Name
			if given(b.Input) { // otherwise there are no arguments
				if !isObject(b.Input) {
					return one, nil, bad(fmt.Sprintf("%s%d.input", param, j), "not an object")
				}
				call.Function.Arguments = string(b.Input)
			}
			one.ToolCalls = append(one.ToolCalls, call)
		case "user tool_result":
			results = append(results, message{Role: "tool", ToolCallID: b.Call, Content: content(b.Content)})
		default:
			return one, nil, unsupported(fmt.Sprintf("%s%d.type", param, j), fmt.Sprintf("a block of type %q of the %s", b.Type, m.Role))
		}
	}
	return one, results, nil
}
