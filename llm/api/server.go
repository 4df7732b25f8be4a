package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kompute-go/kompute-go/llm/chat"
)

// server is the HTTP side: routes, keys, limits, logs and metrics.
type server struct {
	options  *options
	log      *slog.Logger
	routes   *http.ServeMux
	metrics  *metrics
	model    atomic.Pointer[loaded] // nil while it is loaded
	draining atomic.Bool
	slots    chan struct{} // one for each request that may be worked on
	decoding chan struct{} // one for each body that may be decoded
	key      [sha256.Size]byte

	bodyBytes atomic.Int64 // of the bodies that are read or decoded
}

// handler answers a request, or returns an error to answer with.
type handler func(http.ResponseWriter, *http.Request, *loaded) error

func newServer(o *options, log *slog.Logger) *server {
	s := &server{
		options: o, log: log, routes: http.NewServeMux(),
		slots: make(chan struct{}, o.places()+o.engine.Queue), decoding: make(chan struct{}, runtime.GOMAXPROCS(0)),
		key: sha256.Sum256([]byte(o.apiKey)),
	}
	s.metrics = newMetrics(s)
	handle := func(pattern string, h handler) {
		s.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := s.guarded(w, r, h); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	handle("POST /v1/chat/completions", working(s, s.chatCompletions))
	handle("POST /v1/completions", working(s, s.completions))
	handle("POST /v1/responses", working(s, s.responses))
	handle("POST /v1/embeddings", working(s, s.embeddings))
	handle("POST /tokenize", working(s, s.tokenize))
	handle("POST /detokenize", working(s, s.detokenize))
	handle("GET /v1/models", s.listModels)
	handle("GET /v1/models/{id...}", s.showModel)
	s.routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	s.routes.HandleFunc("GET /health", s.ready) // as vLLM and llama.cpp's server call it
	s.routes.HandleFunc("GET /readyz", s.ready)
	s.routes.Handle("GET /metrics", s.metrics.handler())
	s.routes.HandleFunc("GET /{$}", page)
	s.routes.HandleFunc("GET /page/{file}", page)
	s.routes.HandleFunc(otherRoutes, s.other)
	return s
}

// otherRoutes is the pattern of requests that no other matches.
const otherRoutes = "/"

// other answers that there is nothing at the path, or nothing for the method.
func (s *server) other(w http.ResponseWriter, r *http.Request) {
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
func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "draining")
	case s.model.Load() == nil:
		writeText(w, http.StatusServiceUnavailable, "loading")
	case s.model.Load().engine.Err() != nil:
		writeText(w, http.StatusServiceUnavailable, "the engine has failed")
	case s.model.Load().engine.Stats().Devices == 0:
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

// guarded calls h with the model, if the request is allowed.
func (s *server) guarded(w http.ResponseWriter, r *http.Request, h handler) error {
	if s.options.apiKey != "" {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(given)) // of equal length, so that the time reveals nothing
		if subtle.ConstantTimeCompare(sum[:], s.key[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
			return &apiError{status: http.StatusUnauthorized, code: "invalid_api_key", message: "the API key is missing or wrong"}
		}
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
func working[T any](s *server, h func(http.ResponseWriter, *http.Request, *loaded, *T) error) handler {
	return func(w http.ResponseWriter, r *http.Request, m *loaded) error {
		q := new(T)
		if err := s.readJSON(w, r, q); err != nil {
			return err
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			return errBusy
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.timeout, errTimeout)
		defer cancel()
		n := noteOf(ctx)
		n.until = time.Now().Add(s.options.timeout + lastWords)
		defer func() { n.until = time.Time{} }() // an error is written without a slot
		err := h(w, r.WithContext(ctx), m, q)
		if err != nil && ctx.Err() != nil {
			return asAPIError(ctx, err)
		}
		return err
	}
}

// fail answers with an error, or not at all if the client has disconnected.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asAPIError(r.Context(), err)
	note := noteOf(r.Context())
	note.err = err
	if e.status == http.StatusInternalServerError {
		fields := []any{"id", note.id, "error", err}
		if template := new(chat.TemplateError); errors.As(err, &template) && template.Stack != nil {
			fields = append(fields, "stack", string(template.Stack))
		}
		s.log.Error("request failed", fields...)
	}
	if note.began {
		note.status = e.status // what logs and metrics say of an answer that was cut off
	} else {
		if e.status != http.StatusRequestTimeout { // after which a client gets no more time
			skipBody(w, r)
		}
		e.write(w)
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

// note is the log entry of a request; handlers add to it.
type note struct {
	id             string
	start          time.Time
	status         int
	began          bool // the answer's header has been written
	err            error
	prompt, answer int           // tokens
	firstToken     time.Duration // 0 if there was none
	finish         string
	until          time.Time // when writing the answer must end; zero for no such time
}

type noteKey struct{}

// noteOf returns the note of a request that ServeHTTP has begun.
func noteOf(ctx context.Context) *note {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		return n
	}
	return &note{}
}

// recorder records the status of an answer, and disconnects a client that reads nothing.
type recorder struct {
	http.ResponseWriter
	note  *note
	stall time.Duration // maximum time of one write
}

func (r *recorder) WriteHeader(status int) {
	if !r.note.began {
		r.note.status, r.note.began = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if !r.note.began {
		r.WriteHeader(http.StatusOK)
	}
	deadline := time.Now().Add(r.stall)
	if until := r.note.until; !until.IsZero() && until.Before(deadline) {
		deadline = until
	}
	// Where there are no deadlines, TCP's own limit applies.
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(deadline)
	return r.ResponseWriter.Write(p)
}

// Unwrap implements http.ResponseController's interface.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// goodID matches IDs that a client or a proxy may give a request.
var goodID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ServeHTTP gives each request an ID, logs and counts it, and survives its
// panics.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := &note{id: r.Header.Get("X-Request-Id"), start: time.Now()}
	if !goodID.MatchString(n.id) {
		n.id = rand.Text()
	}
	w.Header().Set("X-Request-Id", n.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", "id", n.id, "value", v, "stack", string(debug.Stack()))
			n.err = errPanic
			if n.began {
				defer panic(http.ErrAbortHandler) // the client must not mistake this for the end
			} else {
				asAPIError(r.Context(), errPanic).write(&recorder{w, n, s.options.stall})
			}
		}
		s.logRequest(r, n, time.Since(n.start))
	}()
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.options.stall)) // if it cannot be set, there is no limit
	}
	out := &recorder{w, n, s.options.stall}
	if !s.allowOrigin(out, r) {
		s.routes.ServeHTTP(out, r)
	}
}

var errPanic = errors.New("panic")

func (s *server) logRequest(r *http.Request, n *note, took time.Duration) {
	s.metrics.request(r, n, took)
	fields := []any{"id", n.id, "method", r.Method, "path", brief(r.URL.Path), "status", n.status, "ms", took.Milliseconds(), "remote", r.RemoteAddr}
	if n.prompt > 0 {
		fields = append(fields, "prompt_tokens", n.prompt, "completion_tokens", n.answer, "ttft_ms", n.firstToken.Milliseconds(), "finish", n.finish)
	}
	if n.err != nil {
		text := n.err.Error()
		if n.status < http.StatusInternalServerError {
			text = brief(text)
		}
		fields = append(fields, "error", text)
	}
	level := slog.LevelDebug // of probes, metrics and the page
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		level = slog.LevelInfo
	}
	s.log.Log(r.Context(), level, "request", fields...)
}
