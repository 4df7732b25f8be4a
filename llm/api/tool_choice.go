package api

import (
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// tool is a function that a model may call.
type tool struct {
	Type     string `json:"type"`
	Function struct {
		Strict     bool           `json:"strict"`
		Name       string         `json:"name"`
		Parameters jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// allowedTools are some of a request's tools. The others are shown to the model, but may not be called.
type allowedTools struct {
	Mode  string `json:"mode"` // auto or required
	Tools []tool `json:"tools"`
}

// toolChoice returns tool_choice if it is a string, "" without one, and otherwise its JSON.
func (q *chatRequest) toolChoice() (choice string) {
	switch q.ToolChoice.Kind() {
	case 0, 'n':
		return ""
	case '"':
		if json.Unmarshal(q.ToolChoice, &choice) == nil && choice != "" {
			return choice
		}
	}
	return string(q.ToolChoice)
}

// callable returns the tools that may be called by tool_choice, and whether one of them must be.
func (q *chatRequest) callable() (tools []stdjson.RawMessage, must bool, err error) {
	switch q.toolChoice() {
	case "", "auto", "none":
		return q.Tools, false, nil
	case "required":
		if len(q.Tools) == 0 {
			return nil, false, bad("tool_choice", "there are no tools")
		}
		return q.Tools, true, nil
	}
	var wanted struct {
		tool
		Allowed allowedTools `json:"allowed_tools"`
	}
	if q.ToolChoice.Kind() != '{' || json.Unmarshal(q.ToolChoice, &wanted) != nil {
		return nil, false, bad("tool_choice", "not none, auto, required, a function or allowed_tools")
	}
	switch wanted.Type {
	case "", "function":
		tools, err = q.named([]tool{wanted.tool})
		return tools, true, err
	case "allowed_tools":
		if mode := wanted.Allowed.Mode; mode != "auto" && mode != "required" {
			return nil, false, bad("tool_choice", "the mode %q of allowed_tools is not auto or required", mode)
		}
		tools, err = q.named(wanted.Allowed.Tools)
		return tools, wanted.Allowed.Mode == "required", err
	}
	return nil, false, unsupported("tool_choice", fmt.Sprintf("%q is not function or allowed_tools", wanted.Type))
}

// named returns the tools of the request that have the names of these, of which there must be one.
func (q *chatRequest) named(wanted []tool) ([]stdjson.RawMessage, error) {
	names := map[string]bool{}
	for _, t := range wanted {
		if t.Type != "" && t.Type != "function" {
			return nil, unsupported("tool_choice", fmt.Sprintf("%q is not function", t.Type))
		}
		if t.Function.Name == "" {
			return nil, bad("tool_choice", "no function with a name")
		}
		names[t.Function.Name] = true
	}
	if len(names) == 0 {
		return nil, bad("tool_choice", "there are no tools in allowed_tools")
	}
	var out []stdjson.RawMessage
	for _, raw := range q.Tools {
		var t tool
		if json.Unmarshal(raw, &t) == nil && names[t.Function.Name] {
			out = append(out, raw)
			delete(names, t.Function.Name)
		}
	}
	for _, t := range wanted {
		if names[t.Function.Name] {
			return nil, bad("tool_choice", "there is no tool %q", t.Function.Name)
		}
	}
	return out, nil
}

// shown returns the tools that the template shows to the model. Where its calls have no tag at which a grammar can
// begin, those that may not be called are left out.
func (q *chatRequest) shown(m *loaded) ([]stdjson.RawMessage, error) {
	tools, must, err := q.callable()
	if must || m.folder.Template.Writes(callTag) {
		tools = q.Tools
	}
	return tools, err
}

// toolNames returns the names of tools.
func toolNames(tools []stdjson.RawMessage) map[string]bool {
	out := map[string]bool{}
	for _, raw := range tools {
		var t tool
		if json.Unmarshal(raw, &t) == nil { // was checked
			out[t.Function.Name] = true
		}
	}
	return out
}
