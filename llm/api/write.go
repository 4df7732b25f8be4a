package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// completion is an answer, or an event of one, in OpenAI's form.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   any      `json:"usage,omitzero"` // *usage; a nil pointer is null, in a stream that ends with it
}

type choice struct {
	Index    int     `json:"index"`
	Message  *fields `json:"message,omitzero"` // of a chat
	Delta    *fields `json:"delta,omitzero"`   // of a chat's stream
	Text     *string `json:"text,omitzero"`    // of a text
	Logprobs any     `json:"logprobs"`         // *chatLogprobs, *textLogprobs or nil
	Finish   *string `json:"finish_reason"`
}

type fields struct {
	Role      string         `json:"role,omitzero"`
	Content   jsontext.Value `json:"content,omitzero"` // a string or null
	Reasoning string         `json:"reasoning_content,omitzero"`
	ToolCalls []toolCall     `json:"tool_calls,omitzero"`
}

type usage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	Total         int `json:"total_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Details struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (g *generation) completion(chatObject string, choices ...choice) *completion {
	object := "text_completion"
	if g.chat {
		object = chatObject
	}
	return &completion{ID: g.id, Object: object, Created: g.began.Unix(), Model: g.model, Choices: choices}
}

func (g *generation) usageOf(c counts) *usage {
	u := &usage{Prompt: g.prompt, Completion: c.tokens, Total: g.prompt + c.tokens}
	u.PromptDetails.Cached, u.Details.Reasoning = c.cached, c.reasoning
	return u
}

// quoted returns a text as JSON.
func quoted(text string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		v, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	}
	return v
}

// whole collects an answer that is sent in one piece.
type whole struct {
	choices []wholeChoice // each is written by one goroutine
}

type wholeChoice struct {
	reasoning, content strings.Builder
	calls              []toolCall
	logprobs           []generate.Logprob
	finish             string
}

func newWhole(choices int) *whole { return &whole{choices: make([]wholeChoice, choices)} }

func (o *whole) delta(d delta) error {
	c := &o.choices[d.choice]
	c.reasoning.WriteString(d.reasoning)
	c.content.WriteString(d.content)
	if d.call != nil {
		call := *d.call
		call.Index = nil
		c.calls = append(c.calls, call)
	}
	c.logprobs = append(c.logprobs, d.logprobs...)
	c.finish = d.finish
	return nil
}

func (o *whole) end(w http.ResponseWriter, g *generation, c counts, _ error) error {
	all := g.completion("chat.completion")
	for i := range o.choices {
		from := &o.choices[i]
		text := from.content.String()
		one := choice{Index: i, Finish: &from.finish, Text: &text, Logprobs: g.logprobsOf(from.logprobs, g.newTextPlace())}
		if g.chat {
			one.Text = nil
			one.Message = &fields{Role: "assistant", Content: quoted(text), Reasoning: from.reasoning.String(), ToolCalls: from.calls}
			if text == "" && from.calls != nil {
				one.Message.Content = jsontext.Value("null")
			}
		}
		all.Choices = append(all.Choices, one)
	}
	all.Usage = g.usageOf(c)
	return writeJSON(w, http.StatusOK, all)
}

// events sends an answer as it is generated, as server-sent events. Tokens wait
// in the engine's stream, so a slow reader delays nothing; one that reads
// nothing for too long is disconnected.
type events struct {
	mu sync.Mutex
	eventWriter
	*generation
	places []*textPlace // of each choice
}

func (o *events) delta(d delta) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := choice{Index: d.choice, Finish: optional(d.finish)}
	if d.logprobs != nil {
		one.Logprobs = o.logprobsOf(d.logprobs, o.places[d.choice])
	}
	switch {
	case !o.chat && d.part == (part{}) && d.finish == "":
		return nil // a chat sends the role first, a text nothing
	case !o.chat:
		one.Text = &d.content
	case d.call != nil:
		one.Delta = &fields{ToolCalls: []toolCall{*d.call}}
	case d.reasoning != "":
		one.Delta = &fields{Reasoning: d.reasoning}
	case d.content != "":
		one.Delta = &fields{Content: quoted(d.content)}
	case d.finish != "":
		one.Delta = &fields{}
	default:
		one.Delta = &fields{Role: "assistant", Content: quoted("")}
	}
	event := o.completion("chat.completion.chunk", one)
	if o.usage {
		event.Usage = (*usage)(nil)
	}
	return o.send(event)
}

func (o *events) end(_ http.ResponseWriter, g *generation, c counts, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var sent error
	switch e := new(apiError); {
	case err == nil:
		if g.usage {
			last := g.completion("chat.completion.chunk")
			last.Choices, last.Usage = []choice{}, g.usageOf(c)
			sent = o.send(last)
		}
	case errors.As(err, &e):
		sent = o.send(e.body())
	default:
		sent = o.send(asAPIError(context.Background(), err).body())
	}
	return cmp.Or(sent, o.write("data: [DONE]"))
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w     http.ResponseWriter
	began bool
}

// send sends one event.
func (o *eventWriter) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.write("data: " + string(data))
}

// write sends the lines of one event.
func (o *eventWriter) write(lines string) error {
	if !o.began {
		o.began = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("Cache-Control", "no-store")
		o.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	}
	_, err := o.w.Write([]byte(lines + "\n\n"))
	if err == nil {
		err = http.NewResponseController(o.w).Flush()
	}
	// Remove the deadline of this write: when it passes, HTTP/2 would end the stream, even if
	// only no event was due.
	_ = http.NewResponseController(o.w).SetWriteDeadline(time.Time{})
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}
