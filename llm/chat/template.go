package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ardanlabs/jinja"
)

// Limits on one rendering. The first is that of Jinja's sandbox.
const (
	maxRange      = 100_000
	maxMacroCalls = 10_000
)

// Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	// Extra holds further fields that a template may look at, such as
	// "tool_calls" or "reasoning_content". See Options.Variables for its types.
	Extra map[string]any
}

// Options are the options of Render.
type Options struct {
	// AddGenerationPrompt ends the text with the start of the assistant's turn.
	AddGenerationPrompt bool
	// Tools describes functions, each a JSON schema.
	Tools []json.RawMessage
	// Variables are passed to the template by name, e.g. "enable_thinking":
	// false. Values are nil, bool, int, int64, float64, string, []string, []any,
	// map[string]any, json.RawMessage or []json.RawMessage.
	Variables map[string]any
	// Now is the time for strftime_now; zero is the present.
	Now time.Time
}

// Template is a compiled chat template. It is immutable and safe for concurrent
// use.
type Template struct {
	compiled *jinja.Template
	literals []string          // what the rewritten template refers to
	tokens   map[string]string // bos_token, eos_token, … of tokenizer_config.json
}

// Parse compiles the text of a template. It fails with TemplateError.
func Parse(source string) (t *Template, err error) {
	defer recovered("parse", &err)
	rewritten, literals, err := rewrite(source)
	if err != nil {
		return nil, &TemplateError{Stage: "parse", Reason: err.Error()}
	}
	compiled, err := jinja.Compile(rewritten)
	if err != nil {
		return nil, &TemplateError{Stage: "parse", Reason: err.Error()}
	}
	return &Template{compiled: compiled, literals: literals}, nil
}

// recovered turns a panic of the template engine into an error.
func recovered(stage string, err *error) {
	if r := recover(); r != nil {
		*err = &TemplateError{Stage: stage, Reason: fmt.Sprint(r)}
	}
}

// Render returns the text of a conversation. It fails with TemplateError, also
// where the template itself refuses the conversation.
func (t *Template) Render(messages []Message, o Options) (text string, err error) {
	defer recovered("render", &err)
	if t == nil {
		return "", &TemplateError{Stage: "render", Reason: "the template is nil"}
	}
	data, err := t.data(messages, o)
	if err != nil {
		return "", &TemplateError{Stage: "render", Reason: err.Error()}
	}
	if text, err = t.compiled.RenderValues(data); err != nil {
		return "", &TemplateError{Stage: "render", Reason: err.Error()}
	}
	return text, nil
}

// data collects the variables. Later ones win, as in transformers.
func (t *Template) data(messages []Message, o Options) (map[string]jinja.Value, error) {
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	data := map[string]jinja.Value{
		"tools": jinja.None(), "documents": jinja.None(),
		"add_generation_prompt": jinja.NewBool(o.AddGenerationPrompt),
		"range":                 jinja.NewCallable("range", boundedRange),
		"raise_exception":       jinja.NewCallable("raise_exception", raise),
		"strftime_now":          jinja.NewCallable("strftime_now", clock(now)),
		enterMacro:              jinja.NewCallable(enterMacro, countCalls()),
	}
	for i, s := range t.literals {
		data[fmt.Sprintf("%s%d", literalPrefix, i)] = jinja.NewString(s)
	}
	for name, filter := range ownFilters {
		data[filterPrefix+name] = jinja.NewCallable(name, filter)
	}
	for name, token := range t.tokens {
		data[name] = jinja.NewString(token)
	}
	var err error
	if len(o.Tools) > 0 {
		if data["tools"], err = toValue(o.Tools); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Variables)) {
		if data[name], err = toValue(o.Variables[name]); err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
	}
	data["messages"], err = messageList(messages)
	return data, err
}

// messageList converts the conversation to dictionaries in a fixed order.
func messageList(messages []Message) (jinja.Value, error) {
	items := make([]jinja.Value, len(messages))
	for i, m := range messages {
		items[i] = jinja.NewDict()
		d := items[i].AsDict()
		d.Set("role", jinja.NewString(m.Role))
		d.Set("content", jinja.NewString(m.Content))
		for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
			v, err := toValue(m.Extra[key])
			if err != nil {
				return jinja.Undefined(), fmt.Errorf("message %d: %s: %w", i, key, err)
			}
			d.Set(key, v)
		}
	}
	return jinja.NewList(items), nil
}

// function is what a template can call.
type function func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

// raise is raise_exception.
func raise(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), fmt.Errorf("raise_exception without a message")
	}
	return jinja.Undefined(), fmt.Errorf("%s", args[0])
}

// clock is strftime_now at a fixed time.
func clock(now time.Time) function {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), fmt.Errorf("strftime_now takes one format")
		}
		return jinja.NewString(strftime(now, args[0].AsString())), nil
	}
}

// countCalls fails when macros have been called too often.
func countCalls() function {
	calls := 0
	return func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if calls++; calls > maxMacroCalls {
			return jinja.Undefined(), fmt.Errorf("more than %d macro calls", maxMacroCalls)
		}
		return jinja.None(), nil
	}
}

// boundedRange is range, of at most maxRange numbers.
func boundedRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) < 1 || len(args) > 3 {
		return jinja.Undefined(), fmt.Errorf("range takes 1 to 3 numbers, not %d", len(args))
	}
	bounds := [3]int64{0, 0, 1} // start, stop, step
	for i, a := range args {
		if !a.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range of %s, which is not an integer", a)
		}
		if len(args) == 1 {
			i = 1
		}
		bounds[i] = a.AsInt()
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return jinja.Undefined(), fmt.Errorf("range with step 0")
	}
	var items []jinja.Value
	for v := start; step > 0 && v < stop || step < 0 && v > stop; v += step {
		if len(items) == maxRange {
			return jinja.Undefined(), fmt.Errorf("range of more than %d numbers", maxRange)
		}
		items = append(items, jinja.NewInt(v))
		if next := v + step; (next > v) != (step > 0) {
			break // beyond the last integer
		}
	}
	return jinja.NewList(items), nil
}
