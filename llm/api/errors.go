package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// apiError is an error in OpenAI's form.
type apiError struct {
	status  int
	code    string // for programs; may be empty
	param   string // the field that is wrong; may be empty
	message string
	retry   int // seconds until another try makes sense; 0 says nothing
}

func (e *apiError) Error() string { return e.message }

// Errors that concern no field.
var (
	errBusy     = &apiError{status: http.StatusTooManyRequests, code: "queue_full", message: "too many requests are waiting", retry: 1}
	errTimeout  = &apiError{status: http.StatusGatewayTimeout, code: "timeout", message: "the request took longer than this server allows"}
	errGone     = &apiError{status: 499, code: "cancelled", message: "the client has gone, or takes nothing"} // the client has gone and will not read this
	errShutdown = &apiError{status: http.StatusServiceUnavailable, code: "shutting_down", message: "the server is shutting down", retry: 5}
)

// ErrShutdown is what requests are answered with that are cut off while the program ends, if it is the cause for which
// the context of http.Server.BaseContext was cancelled.
var ErrShutdown error = errShutdown

// bad is an error of the client.
func bad(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, param: param, message: param + ": " + fmt.Sprintf(format, args...)}
}

// unsupported rejects a field that is not supported.
func unsupported(param, reason string) *apiError {
	e := bad(param, "unsupported: %s", reason)
	e.code = "unsupported"
	return e
}

// asAPIError determines whether an error is the client's or the server's.
func asAPIError(ctx context.Context, err error) *apiError {
	var e *apiError
	var cause *apiError
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &cause): // timeout, shutdown
		return cause
	case ctx.Err() != nil:
		return errGone
	case errors.Is(err, engine.ErrBusy):
		return errBusy
	case errors.Is(err, kompute.ErrClosed):
		return errShutdown
	case errors.Is(err, checkpoint.ErrMissing): // model.Model's Head
		return &apiError{status: http.StatusBadRequest, code: "unsupported", message: "this model has no head: it makes embeddings, but no text"}
	case errors.Is(err, chat.ErrTemplate) && !errors.Is(err, chat.ErrInternal):
		return bad("messages", "%v", err)
	case errors.Is(err, generate.ErrPrompt), errors.Is(err, tokenizer.ErrEncoding), errors.Is(err, sample.ErrParams), errors.Is(err, grammar.ErrWork):
		return &apiError{status: http.StatusBadRequest, message: err.Error()}
	}
	return &apiError{status: http.StatusInternalServerError, message: "something went wrong here; the server's log says what, under this request's id"}
}

// kind is OpenAI's name for the group of errors.
func (e *apiError) kind() string {
	switch e.status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if e.status >= 500 {
		return "server_error"
	}
	return "invalid_request_error"
}

// body is the error as JSON.
func (e *apiError) body() any {
	type fields struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return struct {
		Error fields `json:"error"`
	}{fields{brief(e.message), e.kind(), optional(brief(e.param)), optional(e.code)}}
}

// brief shortens a text for an answer, or for the log where the error is the client's: it may contain all that a client
// has sent.
func brief(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…" // without a character that was cut
}

// optional returns nil for an empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// write answers with the error, whose body the API of the request's route determines.
func (e *apiError) write(w http.ResponseWriter, form func(*apiError) any) {
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.retry))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Connection", "close")
	}
	_ = writeJSON(w, e.status, form(e)) // what is reported is e
}

// writeJSON writes an answer. It returns errGone if the client does not take it.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	err := json.MarshalWrite(w, v)
	if own := new(json.SemanticError); err != nil && !errors.As(err, &own) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

var kinds = map[jsontext.Kind]string{
	0: "something", 'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "this number", '{': "an object", '[': "an array",
}

// jsonError reports what is wrong with a request's JSON, and where.
func jsonError(err error) *apiError {
	var wrong *json.SemanticError
	var broken *jsontext.SyntacticError
	switch {
	case errors.As(err, &wrong):
		field := strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", ".")
		if own := new(apiError); errors.As(err, &own) {
			e := bad(field, "%s", own.message)
			e.code = own.code
			return e
		}
		what := kinds[wrong.JSONKind] + " is wrong here"
		if wrong.Err != nil {
			what += fmt.Sprintf(" (%v)", wrong.Err)
		}
		if field == "" {
			return &apiError{status: http.StatusBadRequest, message: "the body: " + what}
		}
		return bad(field, "%s", what)
	case errors.As(err, &broken):
		return &apiError{status: http.StatusBadRequest, message: "the body is not valid JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")}
	}
	return &apiError{status: http.StatusBadRequest, message: "the body cannot be read: " + err.Error()}
}
