package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// response is an answer of /v1/responses.
type response struct {
	ID           string             `json:"id"`
	Object       string             `json:"object"`
	Created      int64              `json:"created_at"`
	Status       string             `json:"status"` // in_progress, completed, incomplete or failed
	Error        *responseError     `json:"error"`
	Incomplete   *incompleteDetails `json:"incomplete_details"`
	Instructions *string            `json:"instructions"`
	MaxTokens    *int               `json:"max_output_tokens"`
	Metadata     map[string]string  `json:"metadata"`
	Model        string             `json:"model"`
	Output       []*outputItem      `json:"output"`
	Parallel     bool               `json:"parallel_tool_calls"`
	Previous     *string            `json:"previous_response_id"`
	Reasoning    struct {
		Effort  *string `json:"effort"`
		Summary *string `json:"summary"`
	} `json:"reasoning"`
	Store       bool           `json:"store"`
	Temperature float64        `json:"temperature"`
	Text        jsontext.Value `json:"text"`
	ToolChoice  jsontext.Value `json:"tool_choice"`
	Tools       []responseTool `json:"tools"`
	TopP        float64        `json:"top_p"`
	Truncation  string         `json:"truncation"`
	Usage       *responseUsage `json:"usage"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// outputItem is a message, thoughts, or a call of a tool.
type outputItem struct {
	ID        string        `json:"id"`
	Type      string        `json:"type"`
	Status    string        `json:"status"`
	Role      string        `json:"role,omitzero"`
	Summary   []struct{}    `json:"summary,omitzero"` // of thoughts: always empty
	Content   []*outputPart `json:"content,omitzero"`
	CallID    string        `json:"call_id,omitzero"`
	Name      string        `json:"name,omitzero"`
	Arguments *string       `json:"arguments,omitzero"`
}

type outputPart struct {
	Type        string     `json:"type"` // output_text or reasoning_text
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations,omitzero"`
	Logprobs    []struct{} `json:"logprobs,omitzero"`
}

// responseEvent is an event of a stream.
type responseEvent struct {
	Type      string         `json:"type"`
	Sequence  int            `json:"sequence_number"`
	Response  *response      `json:"response,omitzero"`
	Output    *int           `json:"output_index,omitzero"`
	Content   *int           `json:"content_index,omitzero"`
	ItemID    string         `json:"item_id,omitzero"`
	Item      *outputItem    `json:"item,omitzero"`
	Part      *outputPart    `json:"part,omitzero"`
	Delta     *string        `json:"delta,omitzero"`
	Text      *string        `json:"text,omitzero"`
	Name      string         `json:"name,omitzero"`
	Arguments *string        `json:"arguments,omitzero"`
	Logprobs  jsontext.Value `json:"logprobs,omitzero"`
}

// responseSink makes a response of an answer, and sends its events if it is a stream. A response is one answer, so there is
// one goroutine.
type responseSink struct {
	eventWriter
	*generation
	request  *responseRequest
	sequence int
	output   []*outputItem
	open     *outputItem // the last one of output, if it may go on
}

func (o *responseSink) delta(d delta) error {
	switch {
	case d.reasoning != "":
		return o.text("reasoning", "rs_", "reasoning_text", d.reasoning)
	case d.content != "":
		return o.text("message", "msg_", "output_text", d.content)
	case d.call != nil:
		return o.call(d.call)
	case d.finish == "": // the first one
		return errors.Join(o.event(responseEvent{Type: "response.created", Response: o.response("in_progress")}),
			o.event(responseEvent{Type: "response.in_progress", Response: o.response("in_progress")}))
	}
	if o.output == nil { // an answer without text is a message all the same
		if err := o.text("message", "msg_", "output_text", ""); err != nil {
			return err
		}
	}
	return o.close(statusOf(d.finish))
}

// statusOf is the status of a response that ended for this reason.
func statusOf(finish string) string {
	if finish == generate.FinishLength {
		return "incomplete"
	}
	return "completed"
}

// event sends an event, if the answer is a stream.
func (o *responseSink) event(e responseEvent) error {
	if !o.stream {
		return nil
	}
	e.Sequence = o.sequence
	o.sequence++
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return o.write("event: " + e.Type + "\ndata: " + string(data))
}

// itemEvent is an event about the last item.
func (o *responseSink) itemEvent(kind string) responseEvent {
	return responseEvent{Type: "response." + kind, Output: new(len(o.output) - 1), ItemID: o.output[len(o.output)-1].ID}
}

// partEvent is an event about the only part of the last item.
func (o *responseSink) partEvent(kind string) responseEvent {
	e := o.itemEvent(kind)
	e.Content = new(0)
	return e
}

// begin adds an item.
func (o *responseSink) begin(item *outputItem) error {
	item.Status = "in_progress"
	o.output, o.open = append(o.output, item), item
	e := o.itemEvent("output_item.added")
	e.ItemID, e.Item = "", item
	return o.event(e)
}

// text adds text to the last item, or to a new one if that is of another type.
func (o *responseSink) text(kind, prefix, part, text string) error {
	if o.open == nil || o.open.Type != kind {
		if err := o.close("completed"); err != nil {
			return err
		}
		item := &outputItem{ID: prefix + rand.Text(), Type: kind, Content: []*outputPart{}}
		if kind == "reasoning" {
			item.Summary = []struct{}{}
		} else {
			item.Role = "assistant"
		}
		if err := o.begin(item); err != nil {
			return err
		}
		only := &outputPart{Type: part}
		if kind == "message" {
			only.Annotations, only.Logprobs = []struct{}{}, []struct{}{}
		}
		item.Content = append(item.Content, only)
		e := o.partEvent("content_part.added")
		e.Part = only
		if err := o.event(e); err != nil {
			return err
		}
	}
	o.open.Content[0].Text += text
	if text == "" {
		return nil
	}
	e := o.partEvent(part + ".delta")
	e.Delta = &text
	if kind == "message" {
		e.Logprobs = jsontext.Value("[]")
	}
	return o.event(e)
}

// call adds a call of a tool, which is complete.
func (o *responseSink) call(c *toolCall) error {
	arguments := c.Function.Arguments
	item := &outputItem{ID: "fc_" + rand.Text(), Type: "function_call", CallID: c.ID, Name: c.Function.Name, Arguments: new("")}
	if err := errors.Join(o.close("completed"), o.begin(item)); err != nil {
		return err
	}
	item.Arguments = &arguments
	part, all := o.itemEvent("function_call_arguments.delta"), o.itemEvent("function_call_arguments.done")
	part.Delta, all.Arguments, all.Name = &arguments, &arguments, item.Name
	return errors.Join(o.event(part), o.event(all), o.close("completed"))
}

// close ends the last item.
func (o *responseSink) close(status string) error {
	item := o.open
	if item == nil {
		return nil
	}
	o.open, item.Status = nil, status
	if len(item.Content) > 0 {
		only := item.Content[0]
		text, part := o.partEvent(only.Type+".done"), o.partEvent("content_part.done")
		text.Text, part.Part = &only.Text, only
		if item.Type == "message" {
			text.Logprobs = jsontext.Value("[]")
		}
		if err := errors.Join(o.event(text), o.event(part)); err != nil {
			return err
		}
	}
	e := o.itemEvent("output_item.done")
	e.ItemID, e.Item = "", item
	return o.event(e)
}

func (o *responseSink) end(w http.ResponseWriter, _ *generation, c counts, err error) error {
	if err != nil {
		e := asAPIError(context.Background(), err)
		failed := o.response("failed")
		failed.Error = &responseError{Code: "server_error", Message: brief(e.message)}
		return o.event(responseEvent{Type: "response.failed", Response: failed})
	}
	r := o.response(statusOf(c.finish))
	if r.Status == "incomplete" {
		r.Incomplete = &incompleteDetails{"max_output_tokens"}
	}
	r.Usage = &responseUsage{Input: o.prompt, Output: c.tokens, Total: o.prompt + c.tokens}
	r.Usage.InputDetails.Cached, r.Usage.OutputDetails.Reasoning = c.cached, c.reasoning
	if o.stream {
		return o.event(responseEvent{Type: "response." + r.Status, Response: r})
	}
	return writeJSON(w, http.StatusOK, r)
}

// response is the response so far.
func (o *responseSink) response(status string) *response {
	q := o.request
	sampling := o.requests[0].Sampling
	r := &response{
		ID: o.id, Object: "response", Created: o.generation.began.Unix(), Status: status, Instructions: optional(q.Instructions),
		MaxTokens: q.MaxOutputTokens, Metadata: q.Metadata, Model: o.model, Output: o.output, Parallel: !o.oneCall,
		Temperature: sampling.Temperature, TopP: sampling.TopP, Tools: q.Tools, ToolChoice: q.ToolChoice, Truncation: "disabled",
		Text: jsontext.Value(`{"format":{"type":"text"}}`),
	}
	r.Reasoning.Effort = optional(q.Reasoning.Effort)
	if given(q.Text.Format) {
		r.Text = jsontext.Value(`{"format":` + string(q.Text.Format) + `}`)
	}
	if r.TopP == 0 {
		r.TopP = 1 // without a limit
	}
	if !given(r.ToolChoice) {
		r.ToolChoice = jsontext.Value(`"auto"`)
	}
	if r.Output == nil {
		r.Output = []*outputItem{}
	}
	if r.Tools == nil {
		r.Tools = []responseTool{}
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	return r
}
