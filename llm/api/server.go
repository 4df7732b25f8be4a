package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// Server is the HTTP side of an engine: routes, keys, limits and logs. Its methods may be called by several goroutines
// at once, except Handle.
type Server struct {
	options  Options
	routes   *http.ServeMux
	model    atomic.Pointer[loaded] // nil while it is loaded
	draining atomic.Bool
	decoding chan struct{} // one for each body that may be decoded
	key      [sha256.Size]byte

	bodyBytes atomic.Int64 // of the bodies that are read or decoded
}

// handler answers a request, or returns an error to answer with.
type handler func(http.ResponseWriter, *http.Request, *loaded) error

// New returns a server that answers 503 until SetModel is called.
func New(o Options) *Server {
	o.fill()
	s := &Server{
		options: o, routes: http.NewServeMux(), decoding: make(chan struct{}, runtime.GOMAXPROCS(0)), key: sha256.Sum256([]byte(o.Key)),
	}
	handleAs := func(errorForm func(*apiError) any, pattern string, h handler) {
		s.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			n := noteOf(r.Context())
			n.level, n.errorForm = slog.LevelInfo, errorForm
			if err := s.guarded(w, r, h); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	handle := func(pattern string, h handler) { handleAs((*apiError).body, pattern, h) }
	handle("POST /v1/chat/completions", working(s, s.chatCompletions))
	handle("POST /v1/completions", working(s, s.completions))
	handle("POST /v1/responses", working(s, s.responses))
	handle("POST /v1/embeddings", working(s, s.embeddings))
	for _, path := range []string{"/v1/rerank", "/v2/rerank", "/rerank"} { // of Jina, Cohere and vLLM
		handle("POST "+path, working(s, s.rerank))
	}
	handle("POST /tokenize", working(s, s.tokenize))
	handle("POST /detokenize", working(s, s.detokenize))
	handle("GET /v1/models", s.listModels)
	handle("GET /v1/models/{id...}", s.showModel)
	handleAs(anthropicError, "POST /v1/messages", working(s, s.anthropicMessages))
	handleAs(anthropicError, "POST /v1/messages/count_tokens", working(s, s.countTokens))
	s.routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	s.routes.HandleFunc("GET /health", s.ready) // as vLLM and llama.cpp's server call it
	s.routes.HandleFunc("GET /readyz", s.ready)
	s.routes.HandleFunc(otherRoutes, s.other)
	return s
}

// Handle adds a route, with a pattern as for [http.ServeMux], before the server is used. Its requests need no key and
// no model, and have the server's IDs, metrics and logs (as those of probes, of level Debug).
func (s *Server) Handle(pattern string, h http.Handler) { s.routes.Handle(pattern, h) }

// SetModel makes the server answer requests with this engine, and with the tokenizer and the chat template of the folder. Both must
// remain open as long as the server is used. It returns an error if ctx ends, or one that matches [kompute.ErrInvalid] if
// a number of Options is negative.
func (s *Server) SetModel(ctx context.Context, f *generate.Folder, e *engine.Engine) error {
	m, err := load(ctx, &s.options, f, e)
	if err == nil {
		s.model.Store(m)
	}
	return err
}

// Drain makes the server answer new requests with 503. Requests in progress continue.
func (s *Server) Drain() { s.draining.Store(true) }

// otherRoutes is the pattern of requests that no other matches.
const otherRoutes = "/"

// other answers that there is nothing at the path, or nothing for the method.
func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	noteOf(r.Context()).level = slog.LevelInfo
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if _, pattern := s.routes.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != otherRoutes {
			w.Header().Set("Allow", method)
			s.fail(w, r, &apiError{status: http.StatusMethodNotAllowed, message: fmt.Sprintf("%q takes %s, not %s", r.URL.Path, method, r.Method)})
			return
		}
	}
	s.fail(w, r, &apiError{status: http.StatusNotFound, message: fmt.Sprintf("there is no %s %q", r.Method, r.URL.Path)})
}

// ready reports whether requests are accepted.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	m := s.model.Load()
	switch {
	case s.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "draining")
	case m == nil:
		writeText(w, http.StatusServiceUnavailable, "loading")
	case m.engine.Err() != nil:
		writeText(w, http.StatusServiceUnavailable, "the engine has failed")
	case m.engine.Stats().Devices == 0:
		writeText(w, http.StatusServiceUnavailable, "a lost device is being replaced")
	default:
		writeText(w, http.StatusOK, "ready")
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that has disconnected needs no answer
}

// mayAsk reports whether the request has the key, if there is one: as a bearer token or as Anthropic's clients send it.
// Some clients send both, of which one may be another service's.
func (s *Server) mayAsk(r *http.Request) bool {
	if s.options.Key == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	var right int
	for _, given := range []string{strings.TrimSpace(token), r.Header.Get("X-Api-Key")} {
		sum := sha256.Sum256([]byte(given)) // of equal length, so that the time reveals nothing
		right |= subtle.ConstantTimeCompare(sum[:], s.key[:])
	}
	return right == 1
}

// guarded calls h with the model, if the request is allowed.
func (s *Server) guarded(w http.ResponseWriter, r *http.Request, h handler) error {
	if !s.mayAsk(r) {
		return &apiError{status: http.StatusUnauthorized, code: "invalid_api_key", message: "the API key is missing or wrong"}
	}
	m := s.model.Load()
	switch {
	case s.draining.Load():
		return errShutdown
	case m == nil:
		return &apiError{status: http.StatusServiceUnavailable, code: "loading", message: "the model is being loaded", retry: 5}
	}
	return h(w, r, m)
}

// lastWords is the time to write, to a client that reads, that the request's time is over.
const lastWords = time.Second

// working reads a request's body, and then takes one of the slots, so that clients that are
// slow to send a body do not take slots from others. It refuses the request if none is free,
// and ends it when its time is over, also if the client is slow to receive the answer.
func working[T any](s *Server, h func(http.ResponseWriter, *http.Request, *loaded, *T) error) handler {
	return func(w http.ResponseWriter, r *http.Request, m *loaded) error {
		q := new(T)
		if err := s.readJSON(w, r, q); err != nil {
			return err
		}
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		default:
			return errBusy
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.Timeout, errTimeout)
		defer cancel()
		n := noteOf(ctx)
		n.until = time.Now().Add(s.options.Timeout + lastWords)
		defer func() { n.until = time.Time{} }() // an error is written without a slot
		err := h(w, r.WithContext(ctx), m, q)
		if err != nil && ctx.Err() != nil {
			return asAPIError(ctx, err)
		}
		return err
	}
}

// fail answers with an error, or not at all if the client has disconnected.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asAPIError(r.Context(), err)
	note := noteOf(r.Context())
	note.err = err
	if e.status == http.StatusInternalServerError {
		fields := []any{"id", note.id, "error", err}
		if template := new(chat.TemplateError); errors.As(err, &template) && template.Stack != nil {
			fields = append(fields, "stack", string(template.Stack))
		}
		s.options.Log.Error("request failed", fields...)
	}
	if note.began {
		note.status = e.status // what logs and metrics say of an answer that was cut off
	} else {
		if e.status != http.StatusRequestTimeout { // after which a client gets no more time
			skipBody(w, r)
		}
		e.write(w, note.errorForm)
	}
}

// skipBody reads what is left of a refused request's body, within limits of bytes and time.
// Otherwise net/http would do so after the time to write the answer has begun. If it fails,
// the connection is closed after the answer.
func skipBody(w http.ResponseWriter, r *http.Request) {
	const most, longest = 256 << 10, time.Second // the former is net/http's
	if r.ContentLength == 0 || r.ProtoMajor > 1 || r.Header.Get("Expect") != "" {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(longest))
	_, _ = io.CopyN(io.Discard, r.Body, most)
}
