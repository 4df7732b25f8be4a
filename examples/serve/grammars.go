package main

import (
	stdjson "encoding/json"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// responseFormat is the required form of an answer.
type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema jsontext.Value `json:"schema"`
	} `json:"json_schema"`
}

// grammars are compiled schemas, which are kept because requests repeat them.
type grammars struct {
	vocabulary func() *grammar.Vocabulary
	mu         sync.Mutex
	compiled   map[string]*grammar.Grammar
}

// maxGrammars is the maximum number of grammars kept.
const maxGrammars = 64

func newGrammars(t *tokenizer.Tokenizer, size int) *grammars {
	return &grammars{
		vocabulary: sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(t, size) }),
		compiled:   map[string]*grammar.Grammar{},
	}
}

// compile returns the grammar of a schema between two texts.
func (g *grammars) compile(schema, before, after string) (*grammar.Grammar, error) {
	key := before + schema + after
	g.mu.Lock()
	known := g.compiled[key]
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	out, err := grammar.Compile([]byte(schema), g.vocabulary(), grammar.Options{Before: before, After: after})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.compiled) >= maxGrammars {
		clear(g.compiled)
	}
	g.compiled[key] = out
	return out, nil
}

// grammar returns the grammar of the answer, nil for none.
func (q *chatRequest) grammar(m *loaded) (*grammar.Grammar, error) {
	forced, err := q.forcedTools()
	switch {
	case err != nil:
		return nil, err
	case forced != nil:
		return m.toolGrammar(forced)
	case q.ResponseFormat == nil || q.ResponseFormat.Type == "text":
		return nil, nil
	}
	schema := `{"type":"object"}`
	if q.ResponseFormat.Type == "json_schema" {
		schema = string(q.ResponseFormat.JSONSchema.Schema)
	} else if q.ResponseFormat.Type != "json_object" {
		return nil, bad("response_format.type", "%q is not text, json_object or json_schema", q.ResponseFormat.Type)
	}
	out, err := m.grammars.compile(schema, "", "")
	if err != nil {
		return nil, bad("response_format", "%v", err)
	}
	return out, nil
}

// tool is a function that a model may call.
type tool struct {
	Function struct {
		Name       string         `json:"name"`
		Parameters jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// forcedTools returns the tools one of which must be called, by tool_choice.
func (q *chatRequest) forcedTools() ([]stdjson.RawMessage, error) {
	switch string(q.ToolChoice) {
	case "", "null", `"auto"`, `"none"`:
		return nil, nil
	case `"required"`:
		if len(q.Tools) == 0 {
			return nil, bad("tool_choice", "there are no tools")
		}
		return q.Tools, nil
	}
	var wanted, one tool
	if q.ToolChoice.Kind() != '{' || json.Unmarshal(q.ToolChoice, &wanted) != nil {
		return nil, bad("tool_choice", "not none, auto, required or a function")
	}
	for _, raw := range q.Tools {
		if json.Unmarshal(raw, &one) == nil && one.Function.Name == wanted.Function.Name {
			return []stdjson.RawMessage{raw}, nil
		}
	}
	return nil, bad("tool_choice", "there is no tool %q", wanted.Function.Name)
}

// toolGrammar is the grammar of a call of one of the tools.
func (m *loaded) toolGrammar(tools []stdjson.RawMessage) (*grammar.Grammar, error) {
	type object = map[string]any
	var calls []jsontext.Value
	for _, raw := range tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, bad("tools", "%v", err)
		}
		if t.Function.Parameters.Kind() != '{' {
			t.Function.Parameters = jsontext.Value(`{"type":"object"}`)
		}
		name, err := json.Marshal(object{"const": t.Function.Name})
		if err != nil {
			return nil, err
		}
		// Properties are generated in their order, so this cannot be a map.
		calls = append(calls, jsontext.Value(`{"type":"object","properties":{"name":`+string(name)+`,"arguments":`+string(t.Function.Parameters)+`},"required":["name","arguments"]}`))
	}
	schema, err := json.Marshal(map[string][]jsontext.Value{"anyOf": calls})
	if err != nil {
		return nil, err
	}
	out, err := m.grammars.compile(string(schema), callTag+"\n", "\n"+callEnd)
	if err != nil {
		return nil, bad("tools", "%v", err)
	}
	return out, nil
}

// constrain restricts the answer to a grammar, after the model's thoughts. A model
// that thinks by default is made to begin its thoughts in the prompt, so that their
// end is certain.
func (g *generation) constrain(m *loaded, q *chatRequest, ids []int) ([]int, error) {
	var err error
	if g.grammar, err = q.grammar(m); err != nil || g.grammar == nil {
		return ids, err
	}
	if !g.thinking && m.thinks && !m.thinkingOver(ids) {
		more, err := m.folder.Tokenizer.Encode(thinkTag + "\n")
		if err != nil {
			return nil, err
		}
		ids, g.thinking = append(ids, more...), true
	}
	return ids, nil
}

// keep adds the grammar to a request of the engine.
func (g *generation) keep(r *engine.Request) {
	if r.Grammar = g.grammar; r.Grammar != nil && g.thinking {
		r.GrammarAfter = thinkEnd
	}
}
