package api

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/chat"
)

// message is a message of a chat.
type message struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Name       string     `json:"name"`
	Reasoning  string     `json:"reasoning_content"`
	Thoughts   string     `json:"reasoning"` // as newer versions of vLLM call it
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`

	FunctionCall jsontext.Value `json:"function_call"`
	Audio        jsontext.Value `json:"audio"`
}

// toolCall is a function call requested by the model.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in streams
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

// content is a message's text, which may come in parts.
type content string

// UnmarshalJSON accepts a string, null, or an array of parts of type text or refusal, which are lines as for vLLM and
// llama.cpp's server.
func (c *content) UnmarshalJSON(data []byte) error {
	text, err := textOf(data, "\n", "", "text", "refusal")
	*c = content(text)
	return err
}

// ownParts are the types of parts that this server writes: together they are one text.
var ownParts = []string{"output_text", "reasoning_text"}

// textOf returns a string, null as an empty one, or the text of an array of parts of these types, with a separator before
// each further one that is none of ownParts.
func textOf(data []byte, separator string, types ...string) (text string, err error) {
	if jsontext.Value(data).Kind() != '[' {
		err = json.Unmarshal(data, &text)
		return text, err
	}
	var parts []struct {
		Type, Text, Refusal string
	}
	if err := json.Unmarshal(data, &parts, json.MatchCaseInsensitiveNames(true)); err != nil {
		return "", err
	}
	var all strings.Builder
	for i, p := range parts {
		if !slices.Contains(types, p.Type) {
			return "", &apiError{code: "unsupported", message: fmt.Sprintf("unsupported: a part of type %q is not text, and this model reads nothing else", p.Type)}
		}
		if p.Type == "refusal" {
			p.Text = p.Refusal
		}
		if i > 0 && !slices.Contains(ownParts, p.Type) {
			all.WriteString(separator)
		}
		all.WriteString(p.Text)
	}
	return all.String(), nil
}

// roles maps OpenAI's names to the roles that chat templates know.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

// check rejects what would be lost on the way to the chat template.
func (m *message) check(param string) error {
	switch {
	case given(m.FunctionCall):
		return unsupported(param+"function_call", "use tool_calls")
	case given(m.Audio):
		return unsupported(param+"audio", "this model reads text")
	}
	for i, c := range m.ToolCalls {
		if c.Type != "" && c.Type != "function" {
			return unsupported(fmt.Sprintf("%stool_calls.%d.type", param, i), fmt.Sprintf("%q is not function", c.Type))
		}
	}
	return nil
}

// isObject reports whether a text is a JSON object. Names may come twice, as in a call of parseCall.
func isObject(v jsontext.Value) bool {
	return v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(true))
}

// given reports whether a field of a request has a value.
func given(v jsontext.Value) bool { return v.Kind() != 0 && v.Kind() != 'n' }

// conversation returns the messages in the form for a chat template.
func (q *chatRequest) conversation() ([]chat.Message, error) {
	out := make([]chat.Message, len(q.Messages))
	for i, m := range q.Messages {
		role, ok := roles[m.Role]
		if !ok {
			return nil, bad(fmt.Sprintf("messages.%d.role", i), "%q is not system, developer, user, assistant or tool", m.Role)
		}
		if err := m.check(fmt.Sprintf("messages.%d.", i)); err != nil {
			return nil, err
		}
		extra := map[string]any{}
		for name, text := range map[string]string{"name": m.Name, "reasoning_content": cmp.Or(m.Reasoning, m.Thoughts), "tool_call_id": m.ToolCallID} {
			if text != "" {
				extra[name] = text
			}
		}
		var calls []stdjson.RawMessage
		for j, c := range m.ToolCalls {
			// Templates format an object, but print a text unchanged. Of two members of the same
			// name, which a call of parseCall may have, they get the last one.
			arguments := cmp.Or(c.Function.Arguments, "{}")
			if !isObject(jsontext.Value(arguments)) {
				return nil, bad(fmt.Sprintf("messages.%d.tool_calls.%d.function.arguments", i, j), "not a JSON object in a string")
			}
			// Some templates print a whole call, in the order of its members.
			calls = append(calls, stdjson.RawMessage(fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`,
				quoted(c.ID), quoted(c.Function.Name), arguments)))
		}
		if calls != nil {
			extra["tool_calls"] = calls
		}
		out[i] = chat.Message{Role: role, Content: string(m.Content), Extra: extra}
	}
	return out, nil
}

// checkContinued rejects a last message that cannot be continued.
func (q *chatRequest) checkContinued() error {
	if !q.ContinueLast || len(q.Messages) == 0 {
		return nil
	}
	last := q.Messages[len(q.Messages)-1]
	switch {
	case q.GenerationPrompt != nil && *q.GenerationPrompt:
		return bad("continue_final_message", "with add_generation_prompt, which begins another message")
	case last.Role != "assistant":
		return bad("continue_final_message", "the last message is not the assistant's")
	case len(last.ToolCalls) > 0:
		return bad("continue_final_message", "the last message ends with calls of tools")
	}
	return nil
}

// continuesThoughts reports whether the message to be continued ends within thoughts.
func (q *chatRequest) continuesThoughts() bool {
	if !q.ContinueLast {
		return false
	}
	text := string(q.Messages[len(q.Messages)-1].Content)
	return strings.LastIndex(text, thinkTag) > strings.LastIndex(text, thinkEnd)
}

// variables returns the variables of the chat template besides the messages.
func (q *chatRequest) variables(m *loaded, noThink bool) (map[string]any, error) {
	out := map[string]any{}
	if noThink || q.ReasoningEffort == "none" {
		out["enable_thinking"] = false
	}
	if q.GenerationPrompt != nil && !*q.GenerationPrompt {
		out["add_generation_prompt"] = false
	}
	if q.EnableThinking != nil {
		out["enable_thinking"] = *q.EnableThinking
	}
	for name, raw := range q.TemplateArguments {
		switch raw.Kind() {
		case 't', 'f', '0', '"':
		default:
			return nil, bad("chat_template_kwargs."+name, "not a bool, a number or a string")
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil { // a number that is too large
			return nil, bad("chat_template_kwargs."+name, "%v", err)
		}
		if text, ok := value.(string); ok && len(m.folder.Tokenizer.SpecialAt(text)) > 0 { // only the template may write them
			return nil, bad("chat_template_kwargs."+name, "a text with special tokens")
		}
		if raw.Kind() == '0' {
			value = stdjson.RawMessage(raw) // an integer stays one
		}
		out[name] = value
	}
	return out, nil
}
