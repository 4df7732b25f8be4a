package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// anthropicAnswer is an answer of /v1/messages.
type anthropicAnswer struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"` // message
	Role       string         `json:"role"`
	Model      string         `json:"model"`
	Content    []*answerBlock `json:"content"`
	StopReason *string        `json:"stop_reason"` // end_turn, max_tokens, stop_sequence or tool_use
	Stop       *string        `json:"stop_sequence"`
	Usage      anthropicUsage `json:"usage"`
}

// anthropicUsage counts tokens. Those of the prompt that were in the cache are not in Input.
type anthropicUsage struct {
	Input  int `json:"input_tokens"`
	Kept   int `json:"cache_creation_input_tokens"` // always 0; some clients add all three
	Cached int `json:"cache_read_input_tokens"`
	Output int `json:"output_tokens"`
}

// answerBlock is a part of an answer: thinking, text or tool_use.
type answerBlock struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text,omitzero"`
	Thinking  *string        `json:"thinking,omitzero"`
	Signature *string        `json:"signature,omitzero"` // always empty
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
}

// anthropicEvent is an event of a stream.
type anthropicEvent struct {
	Type    string           `json:"type"`
	Message *anthropicAnswer `json:"message,omitzero"`
	Index   *int             `json:"index,omitzero"`
	Block   *answerBlock     `json:"content_block,omitzero"`
	Delta   *anthropicDelta  `json:"delta,omitzero"`
	Usage   *anthropicUsage  `json:"usage,omitzero"`
}

type anthropicDelta struct {
	Type       string         `json:"type,omitzero"` // text_delta, thinking_delta or input_json_delta
	Text       *string        `json:"text,omitzero"`
	Thinking   *string        `json:"thinking,omitzero"`
	JSON       *string        `json:"partial_json,omitzero"`
	StopReason *string        `json:"stop_reason,omitzero"`
	Stop       jsontext.Value `json:"stop_sequence,omitzero"` // a string or null, which clients copy
}

// anthropicSink makes an answer of /v1/messages, and sends its events if it is a stream. There is one choice, so there is
// one goroutine.
type anthropicSink struct {
	eventWriter
	*generation
	content []*answerBlock
	open    *answerBlock // the last one of content, if it may go on
	stop    string       // the stop sequence that ended the answer
}

func (o *anthropicSink) delta(d delta) error {
	switch {
	case d.reasoning != "":
		return o.text("thinking", d.reasoning)
	case d.content != "":
		return o.text("text", d.content)
	case d.call != nil:
		return o.call(d.call)
	case d.finish == "": // the first one
		return o.event(anthropicEvent{Type: "message_start", Message: o.answer(counts{})})
	}
	o.stop = d.stop
	return o.close()
}

// event sends an event, if the answer is a stream.
func (o *anthropicSink) event(e anthropicEvent) error {
	if !o.stream {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return o.write("event: " + e.Type + "\ndata: " + string(data))
}

// blockEvent is an event about the last block.
func (o *anthropicSink) blockEvent(kind string) anthropicEvent {
	return anthropicEvent{Type: "content_block_" + kind, Index: new(len(o.content) - 1)}
}

// begin adds a block, whose event shows it without content.
func (o *anthropicSink) begin(b *answerBlock) error {
	if err := o.close(); err != nil {
		return err
	}
	o.content, o.open = append(o.content, b), b
	e := o.blockEvent("start")
	e.Block = b
	return o.event(e)
}

// text adds text to the last block, or to a new one if that is of another type.
func (o *anthropicSink) text(kind, text string) error {
	if o.open == nil || o.open.Type != kind {
		b := &answerBlock{Type: kind}
		if kind == "thinking" {
			b.Thinking, b.Signature = new(""), new("")
		} else {
			b.Text = new("")
		}
		if err := o.begin(b); err != nil {
			return err
		}
	}
	d := &anthropicDelta{Type: kind + "_delta"}
	if kind == "thinking" {
		*o.open.Thinking += text
		d.Thinking = &text
	} else {
		*o.open.Text += text
		d.Text = &text
	}
	e := o.blockEvent("delta")
	e.Delta = d
	return o.event(e)
}

// call adds a call of a tool, which is complete.
func (o *anthropicSink) call(c *toolCall) error {
	b := &answerBlock{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: jsontext.Value("{}")}
	if err := o.begin(b); err != nil {
		return err
	}
	arguments, err := withoutDuplicates(c.Function.Arguments)
	if err != nil {
		return err
	}
	b.Input = jsontext.Value(arguments)
	e := o.blockEvent("delta")
	e.Delta = &anthropicDelta{Type: "input_json_delta", JSON: &arguments}
	return errors.Join(o.event(e), o.close())
}

// withoutDuplicates returns the arguments of a call with the last of several members of one name, which models may write
// and parseCall allows.
func withoutDuplicates(arguments string) (string, error) {
	if jsontext.Value(arguments).IsValid() {
		return arguments, nil
	}
	var v any
	if err := json.Unmarshal([]byte(arguments), &v, jsontext.AllowDuplicateNames(true)); err != nil {
		return "", err
	}
	data, err := json.Marshal(v, json.Deterministic(true))
	return string(data), err
}

// close ends the last block.
func (o *anthropicSink) close() error {
	if o.open == nil {
		return nil
	}
	o.open = nil
	return o.event(o.blockEvent("stop"))
}

func (o *anthropicSink) end(w http.ResponseWriter, _ *generation, c counts, err error) error {
	if err != nil {
		data, marshalled := json.Marshal(anthropicError(asAPIError(context.Background(), err)))
		if marshalled != nil {
			return marshalled
		}
		return o.write("event: error\ndata: " + string(data))
	}
	a := o.answer(c)
	if !o.stream {
		return writeJSON(w, http.StatusOK, a)
	}
	last := &anthropicDelta{StopReason: a.StopReason, Stop: jsontext.Value("null")}
	if o.stop != "" {
		last.Stop = quoted(o.stop)
	}
	return errors.Join(o.event(anthropicEvent{Type: "message_delta", Delta: last, Usage: &a.Usage}),
		o.event(anthropicEvent{Type: "message_stop"}))
}

// answer is the answer so far. It has no reason to stop before its end.
func (o *anthropicSink) answer(c counts) *anthropicAnswer {
	a := &anthropicAnswer{
		ID: o.id, Type: "message", Role: "assistant", Model: o.model, Content: o.content, Stop: optional(o.stop),
		Usage: anthropicUsage{Input: o.prompt - c.cached, Cached: c.cached, Output: c.tokens},
	}
	if a.Content == nil {
		a.Content = []*answerBlock{}
	}
	switch {
	case c.finish == "tool_calls":
		a.StopReason = new("tool_use")
	case c.finish == generate.FinishLength:
		a.StopReason = new("max_tokens")
	case o.stop != "":
		a.StopReason = new("stop_sequence")
	case c.finish != "":
		a.StopReason = new("end_turn")
	}
	return a
}

// anthropicError is an error in Anthropic's form.
func anthropicError(e *apiError) any {
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error", http.StatusGatewayTimeout: "timeout_error",
	}[e.status]
	switch {
	case kind != "":
	case e.status >= http.StatusInternalServerError:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	type fields struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return struct {
		Type  string `json:"type"`
		Error fields `json:"error"`
	}{"error", fields{kind, brief(e.message)}}
}
