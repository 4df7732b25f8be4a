package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/llm/chat/internal/jinja"
)

// The limits on one rendering. The templates of real models stay far below them: the
// longest conversation that fits into a context of a million tokens takes some
// hundred thousand steps and a few hundred megabytes, most of which is garbage at
// once.
const (
	maxSteps   = 20_000_000
	maxBytes   = 256 << 20
	maxOutput  = 64 << 20
	maxDepth   = 2_000
	maxNesting = 100 // of values in values, as of JSON
	maxTime    = 10 * time.Second
	maxFormat  = 1 << 10 // bytes of a format for strftime_now

	maxMessage = 500 // bytes of an error's reason
)

// MarkBegin and MarkEnd are marks that Options.Text can put around places in a text. A
// template prints them as they are, also in lists and dictionaries, where it escapes other
// characters of this kind. It does not count them as characters: comparisons and searches do
// not see them. A MarkBegin stays with the character after it, and a MarkEnd with the
// character before it; text that a template replaces loses its marks. Unicode reserves both
// as noncharacters, so no text needs them.
const (
	MarkBegin = string(jinja.MarkBegin)
	MarkEnd   = string(jinja.MarkEnd)
)

// Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	// Extra holds further fields that a template may use, such as
	// "tool_calls" or "reasoning_content". See Options.Variables for its types.
	Extra map[string]any
}

// Options are the options of Render.
type Options struct {
	// AddGenerationPrompt ends the text with the start of the assistant's turn.
	AddGenerationPrompt bool
	// ContinueLast ends the text after the content of the last message, without what the
	// template writes after that, so that the model continues the message. White space at the
	// end of the content is kept unless the template removes it. Render fails if the template
	// does not write the content.
	ContinueLast bool
	// Tools describes functions, each a JSON schema.
	Tools []json.RawMessage
	// Variables are passed to the template by name, e.g. "enable_thinking":
	// false. Values are nil, bool, int, int64, float64, string, []string, []any,
	// map[string]any, json.RawMessage or []json.RawMessage.
	Variables map[string]any
	// Text, if not nil, is applied to every text of the messages, the tools and the
	// variables before the template sees it, also to keys of dictionaries. The role is that of
	// the message, and empty for tools and variables.
	Text func(role, text string) string
	// Now is the time for strftime_now; zero is the present.
	Now time.Time
}

// Template is a compiled chat template. It is immutable and safe for concurrent
// use.
type Template struct {
	compiled  *jinja.Template
	tokens    map[string]string // bos_token, eos_token, … of tokenizer_config.json
	withTools *Template         // for conversations with tools; nil: the same
}

// Parse compiles the text of a template. It fails with TemplateError.
func Parse(source string) (*Template, error) {
	compiled, err := jinja.Parse(source)
	if err != nil {
		return nil, &TemplateError{Stage: "parse", Reason: shorten(err.Error())}
	}
	return &Template{compiled: compiled}, nil
}

// Render returns the text of a conversation. It fails with TemplateError, also if the
// template itself refuses the conversation. The error also wraps ErrLimit if a limit
// was exceeded, ErrInternal for a bug, and the context's error once that is done.
func (t *Template) Render(ctx context.Context, messages []Message, o Options) (string, error) {
	if t == nil || t.compiled == nil {
		return "", &TemplateError{Stage: "render", Reason: "the template is nil, or Parse did not make it"}
	}
	if t.withTools != nil && len(o.Tools) > 0 {
		return t.withTools.Render(ctx, messages, o)
	}
	data, err := t.data(messages, o)
	if err != nil {
		return "", &TemplateError{Stage: "render", Reason: err.Error()}
	}
	timed, stop := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("%w: more than %v", jinja.ErrLimit, maxTime))
	defer stop()
	text, err := t.compiled.Render(timed, data, jinja.Limits{Steps: maxSteps, Bytes: maxBytes, Output: maxOutput, Depth: maxDepth})
	if err != nil {
		failed := &TemplateError{Stage: "render", Reason: shorten(withoutMarks(err.Error())), cause: cause(ctx, err)}
		if bug := new(jinja.PanicError); errors.As(err, &bug) {
			failed.Stack = bug.Stack
		}
		return "", failed
	}
	if o.ContinueLast && len(messages) > 0 {
		return cutAtEnd(text)
	}
	return text, nil
}

// contentEnd is put after the content of a message that is to be continued, to find its end in
// the text of the conversation. Unicode reserves both noncharacters. The space is gone if the
// template removes white space around a content.
const contentEnd = "\uFDD2\uFDD3 "

// cutAtEnd returns the text before the last contentEnd.
func cutAtEnd(text string) (string, error) {
	at := strings.LastIndex(text, strings.TrimSpace(contentEnd))
	if at < 0 {
		return "", &TemplateError{Stage: "render", Reason: "the template does not write the last message's content"}
	}
	if !strings.HasPrefix(text[at:], contentEnd) {
		return jinja.TrimRight(text[:at]), nil
	}
	return text[:at], nil
}

// Writes reports whether the template may write a text by itself: it is part of a text or a
// string in the template, or of a token such as bos_token.
func (t *Template) Writes(text string) bool {
	if t == nil || t.compiled == nil {
		return false
	}
	if t.compiled.Writes(text) || t.withTools.Writes(text) {
		return true
	}
	for _, token := range t.tokens {
		if strings.Contains(token, text) {
			return true
		}
	}
	return false
}

// withoutMarks removes the marks of Options.Text, which a template, or an error about a value, may have quoted.
func withoutMarks(message string) string {
	return strings.NewReplacer(MarkBegin, "", MarkEnd, "", quotedMark(MarkBegin), "", quotedMark(MarkEnd), "").Replace(message)
}

func quotedMark(mark string) string { return strings.Trim(strconv.Quote(mark), `"`) }

// shorten limits the length of a message that contains text of the template.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// cause returns the error that callers may test for, if the engine's error wraps one.
func cause(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, jinja.ErrPanic):
		return ErrInternal
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, jinja.ErrLimit):
		return ErrLimit
	}
	return nil
}

// data collects the variables. Later ones win, as in transformers.
func (t *Template) data(messages []Message, o Options) (map[string]jinja.Value, error) {
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	data := map[string]jinja.Value{
		"tools": nil, "documents": nil,
		"add_generation_prompt": o.AddGenerationPrompt,
		"raise_exception":       &jinja.Function{Name: "raise_exception", Call: jinja.Raise},
		"strftime_now":          jinja.NewFunction("strftime_now", clock(now)),
	}
	for name, token := range t.tokens {
		data[name] = token
	}
	var err error
	if len(o.Tools) > 0 {
		if data["tools"], err = toValue(o.Tools); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		data["tools"] = o.apply("", data["tools"])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Variables)) {
		if data[name], err = toValue(o.Variables[name]); err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		data[name] = o.apply("", data[name])
	}
	data["messages"], err = messageList(messages, o)
	return data, err
}

// messageList converts the conversation to dictionaries in a fixed order.
func messageList(messages []Message, o Options) (jinja.Value, error) {
	items := make([]jinja.Value, len(messages))
	for i, m := range messages {
		d := jinja.NewDict()
		d.Set("role", m.Role)
		content := m.Content
		if o.ContinueLast && i == len(messages)-1 {
			content += contentEnd
		}
		d.Set("content", content)
		for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
			v, err := toValue(m.Extra[key])
			if err != nil {
				return nil, fmt.Errorf("message %d: %s: %w", i, key, err)
			}
			d.Set(key, v)
		}
		items[i] = o.apply(m.Role, d)
	}
	return jinja.NewList(items...), nil
}

// clock is strftime_now at a fixed time.
func clock(now time.Time) func(args []jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value) (jinja.Value, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("strftime_now takes one format")
		}
		format, ok := args[0].(string)
		if !ok || len(format) > maxFormat {
			return nil, fmt.Errorf("strftime_now takes a text of at most %d bytes", maxFormat)
		}
		return strftime(now, format), nil
	}
}
