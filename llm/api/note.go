package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"
)

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
	level          slog.Level          // of the request in the log
	errorForm      func(*apiError) any // their body
	until          time.Time           // when writing the answer must end; zero for no such time
}

type noteKey struct{}

// noteOf returns the note of a request that ServeHTTP has begun.
func noteOf(ctx context.Context) *note {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		return n
	}
	return &note{errorForm: (*apiError).body}
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

// ServeHTTP gives each request an ID, that of its X-Request-Id if it has a good one, logs and counts it, and survives
// its panics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := &note{id: r.Header.Get("X-Request-Id"), start: time.Now(), level: slog.LevelDebug, errorForm: (*apiError).body}
	if !goodID.MatchString(n.id) {
		n.id = rand.Text()
	}
	w.Header().Set("X-Request-Id", n.id)
	w.Header().Set("Request-Id", n.id) // as Anthropic's clients read it
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
	out := &recorder{w, n, s.options.Stall}
	defer func() {
		if v := recover(); v != nil {
			s.options.Log.Error("panic", "id", n.id, "value", v, "stack", string(debug.Stack()))
			n.err = errPanic
			if n.began {
				defer panic(http.ErrAbortHandler) // the client must not mistake this for the end
			} else {
				asAPIError(r.Context(), errPanic).write(out, n.errorForm)
			}
		}
		s.logRequest(r, n, time.Since(n.start))
	}()
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.options.Stall)) // if it cannot be set, there is no limit
	}
	s.routes.ServeHTTP(out, r)
}

var errPanic = errors.New("panic")

func (s *Server) logRequest(r *http.Request, n *note, took time.Duration) {
	route := r.Pattern                       // never the path, which clients can choose
	if route == otherRoutes || route == "" { // "" is of requests such as GET * and CONNECT
		route = "other"
	}
	s.options.Metrics.Request(route, n.status, took)
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
	s.options.Log.Log(r.Context(), n.level, "request", fields...)
}
