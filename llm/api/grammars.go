package api

import (
	"context"
	"crypto/sha256"
	stdjson "encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// grammars are compiled forms of answers, which are kept because requests repeat them.
type grammars struct {
	vocabulary func() *grammar.Vocabulary
	compiling  chan struct{} // one for each grammar that may be compiled
	mu         sync.Mutex
	compiled   map[formsKey]*grammar.Grammar
}

// formsKey stands for the forms of a grammar, which may be as long as a body.
type formsKey [sha256.Size]byte

// maxGrammars is the maximum number of grammars kept.
const maxGrammars = 64

func newGrammars(t *tokenizer.Tokenizer, size int) *grammars {
	return &grammars{
		vocabulary: sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(t, size) }),
		compiling:  make(chan struct{}, runtime.GOMAXPROCS(0)), compiled: map[formsKey]*grammar.Grammar{},
	}
}

// keyOf returns the key of these forms.
func keyOf(forms []grammar.Alternative) (key formsKey) {
	h := sha256.New()
	for _, a := range forms {
		for _, text := range []string{a.Before, string(a.Schema), a.Regexp, a.GBNF, a.After} {
			fmt.Fprintf(h, "%d %s", len(text), text) // the length, so that no two lists of texts are the same bytes
		}
	}
	h.Sum(key[:0])
	return key
}

func (g *grammars) known(key formsKey) *grammar.Grammar {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.compiled[key]
}

// compile returns the grammar of texts of one of these forms, which may be that of calls of tools. Only a few are
// compiled at once, because each takes a processor, and may take much memory.
func (g *grammars) compile(ctx context.Context, tools []stdjson.RawMessage, forms ...grammar.Alternative) (*grammar.Grammar, error) {
	key := keyOf(forms)
	if known := g.known(key); known != nil {
		return known, nil
	}
	select {
	case g.compiling <- struct{}{}:
		defer func() { <-g.compiling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if known := g.known(key); known != nil { // another request compiled it meanwhile
		return known, nil
	}
	out, err := grammar.CompileAny(g.vocabulary(), forms...)
	if err == nil {
		err = onlyObjects(out, tools, forms[len(forms)-1].Before) // calls are the last form
	}
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

// wrongForm names the field of a form that cannot be compiled, unless the request has ended before it was.
func wrongForm(ctx context.Context, param string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return bad(param, "%v", err)
}

// grammar returns the grammar of the answer, nil for none.
func (q *chatRequest) grammar(ctx context.Context, m *loaded) (*grammar.Grammar, error) {
	tools, must, err := q.callable()
	if err != nil {
		return nil, err
	}
	if !must {
		return q.form.grammar(ctx, m, tools)
	}
	call, err := callForm(tools, exactly)
	if err != nil {
		return nil, err
	}
	out, err := m.grammars.compile(ctx, tools, call)
	if err != nil {
		return nil, wrongForm(ctx, "tools", err)
	}
	return out, nil
}

// grammar is that of an answer of the form, or of a call of one of the tools; nil: there is no form. If
// a tool's parameters have keywords that grammars do not support, or allow what is no object, the
// arguments of all tools may be any object. If even that cannot be compiled, only the form is allowed.
func (f *form) grammar(ctx context.Context, m *loaded, tools []stdjson.RawMessage) (*grammar.Grammar, error) {
	param, form, err := f.required()
	if err != nil || param == "" {
		return nil, err
	}
	if len(tools) > 0 {
		for _, which := range []func(tool) bool{exactly, loosely} {
			call, err := callForm(tools, which)
			if err != nil {
				return nil, err
			}
			if out, err := m.grammars.compile(ctx, tools, form, call); err == nil {
				return out, nil
			}
		}
	}
	out, err := m.grammars.compile(ctx, nil, form)
	if err != nil {
		return nil, wrongForm(ctx, param, err)
	}
	return out, nil
}

// callForm is the form of a call of one of the tools.
func callForm(tools []stdjson.RawMessage, which func(tool) bool) (grammar.Alternative, error) {
	schema, err := callSchema(tools, which)
	return grammar.Alternative{Schema: schema, Options: grammar.Options{Before: callTag + "\n", After: "\n" + callEnd}}, err
}

// exactly and loosely say for which tools a call has exactly the arguments of the tool's parameters.
func exactly(tool) bool { return true }
func loosely(tool) bool { return false }

// calls is the grammar of what follows each callTag, if the model writes that tag, and a tool is strict or not all may
// be called: then one that may is called, and the arguments of strict tools fit their parameters. It is nil otherwise.
func (q *chatRequest) calls(ctx context.Context, m *loaded) (*grammar.Grammar, error) {
	tools, _, err := q.callable()
	if err != nil || !m.folder.Template.Writes(callTag) {
		return nil, err
	}
	strict := func(t tool) bool { return t.Function.Strict || q.strict[t.Function.Name] }
	asked := slices.ContainsFunc(tools, func(raw stdjson.RawMessage) bool {
		var t tool
		return json.Unmarshal(raw, &t) == nil && strict(t)
	})
	if !asked && len(tools) == len(q.Tools) {
		return nil, nil
	}
	call, err := callForm(tools, strict)
	if err != nil {
		return nil, err
	}
	call.Before = "\n" // the tag has come
	out, err := m.grammars.compile(ctx, tools, call)
	if err != nil {
		return nil, wrongForm(ctx, "tools", fmt.Errorf("strict: %w", err))
	}
	return out, nil
}

// callSchema is the schema of a call of one of the tools, with any arguments for those that which leaves out.
func callSchema(tools []stdjson.RawMessage, which func(tool) bool) ([]byte, error) {
	type object = map[string]any
	var calls []jsontext.Value
	for _, raw := range tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, bad("tools", "%v", err)
		}
		if !which(t) {
			t.Function.Parameters = nil
		}
		parameters, err := rooted(t.Function.Parameters)
		if err != nil {
			return nil, bad("tools", "the parameters of %q: %v", t.Function.Name, err)
		}
		name, err := json.Marshal(object{"const": t.Function.Name})
		if err != nil {
			return nil, err
		}
		// Properties are generated in their order, so this cannot be a map.
		calls = append(calls, jsontext.Value(`{"type":"object","properties":{"name":`+string(name)+`,"arguments":`+string(parameters)+`},"required":["name","arguments"]}`))
	}
	return json.Marshal(map[string][]jsontext.Value{"anyOf": calls})
}

// rooted returns a schema of arguments to be part of another one: it gets an $id, so that its
// $ref are relative to it. If it does not say which values it allows, it allows only objects.
func rooted(schema jsontext.Value) (jsontext.Value, error) {
	if schema.Kind() != '{' {
		return jsontext.Value(`{"type":"object"}`), nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, err
	}
	has := func(name string) bool { return members[name] != nil }
	var more []string
	if !has("$id") {
		more = append(more, `"$id":""`)
	}
	if !slices.ContainsFunc([]string{"type", "anyOf", "const", "enum", "$ref"}, has) {
		more = append(more, `"type":"object"`)
	}
	rest := strings.TrimLeft(strings.TrimLeft(string(schema), space)[1:], space)
	if len(members) > 0 {
		more = append(more, rest)
		rest = ""
	}
	return jsontext.Value("{" + strings.Join(more, ",") + rest), nil
}

// onlyObjects returns an error if a grammar allows calls whose arguments are neither objects nor
// null, for none: an answer with such a call would be text.
func onlyObjects(g *grammar.Grammar, tools []stdjson.RawMessage, before string) error {
	for _, raw := range tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		call := g.Matcher()
		call.AcceptText(before + `{"name":` + string(quoted(t.Function.Name)) + `,"arguments":`)
		for _, begin := range strings.Split(`["tf-0123456789`, "") {
			if call.AcceptText(begin) {
				return fmt.Errorf("the parameters of %q allow values that are not objects, which no call can have as its arguments", t.Function.Name)
			}
		}
	}
	return nil
}

// constrain restricts the answer to a grammar, after the model's thoughts. A model
// that thinks by default is made to begin its thoughts in the prompt, so that their
// end is certain.
func (g *generation) constrain(ctx context.Context, m *loaded, q *chatRequest, ids []int) ([]int, error) {
	var err error
	if g.grammar, err = q.grammar(ctx, m); err != nil {
		return ids, err
	}
	if g.grammar == nil {
		if g.grammar, err = q.calls(ctx, m); g.grammar != nil {
			g.trigger = callTag
		}
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
	if r.Grammar, r.GrammarTrigger = g.grammar, g.trigger; r.Grammar != nil && g.thinking {
		r.GrammarAfter = thinkEnd
	}
}
