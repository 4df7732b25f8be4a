package api

import (
	"errors"
	"net/http"
	"strings"
)

// dialect is an API whose chats mean the same as those of /v1/chat/completions, by other names.
type dialect struct {
	id     string            // how the IDs of answers begin
	fields map[string]string // the names of a chat's fields
}

var (
	responsesDialect = dialect{"resp_", map[string]string{
		"messages": "input", "response_format": "text.format", "max_completion_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort",
	}}
	anthropicDialect = dialect{"msg_", map[string]string{
		"stop": "stop_sequences", "continue_final_message": "messages", "response_format": "output_config.format",
	}}
)

// named names the fields of the dialect in an error about those of a chat.
func (d *dialect) named(err error) error {
	e := new(apiError)
	if !errors.As(err, &e) {
		return err
	}
	field, rest, nested := strings.Cut(e.param, ".")
	own, known := d.fields[field]
	if !known {
		return err
	}
	if nested {
		own += "." + rest
	}
	out := *e
	out.param = own
	out.message = strings.Replace(e.message, e.param, own, 1)
	return &out
}

// answerIn answers a chat in a dialect, whose sink makes the answer.
func (s *Server) answerIn(d *dialect, w http.ResponseWriter, r *http.Request, m *loaded, c *chatRequest, newSink func(*generation) sink) error {
	g, ids, err := s.chat(r.Context(), m, c)
	if err != nil {
		return d.named(err)
	}
	g.id = d.id + strings.TrimPrefix(g.id, "chatcmpl-")
	g.out = newSink(g)
	return d.named(s.run(w, r, m, g, &c.common, [][]int{ids}))
}
