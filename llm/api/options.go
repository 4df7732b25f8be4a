package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
)

// Options say what a Server allows. A zero is the default.
type Options struct {
	// Name is that of the model in the API; default: its folder's, without those above it.
	Name string
	// Key must come with requests to the API, as a bearer token or in X-Api-Key; default: none is required.
	Key string
	// NoThink turns thinking off, unless a request says otherwise.
	NoThink bool
	// Pooling makes embeddings of requests that do not say how.
	Pooling engine.Pooling
	// MaxBody is the maximum number of bytes of a request's body; default 4 MiB.
	MaxBody int64
	// MaxPrompt is the maximum number of bytes of a prompt; default: 16 for each token of the engine's context.
	MaxPrompt int64
	// MaxTokens is the maximum number of tokens of an answer; default: as many as the context has room for.
	MaxTokens int
	// Timeout is the maximum time for a request, until its answer is sent; default: 10 minutes.
	Timeout time.Duration
	// Stall is the maximum time for a client to send a request, or to accept the next part of an answer; default: 30
	// seconds.
	Stall time.Duration
	// Log gets a line for each request; default: [slog.Default].
	Log *slog.Logger
	// Metrics is told how long requests take; default: nobody is.
	Metrics Metrics
}

// Metrics is told how long requests take. Several goroutines may call its methods at once.
type Metrics interface {
	// Request is called when a request has ended. route is the pattern of the route, which clients cannot choose, and
	// "other" if there is none; status is what the answer began with, or what ended it.
	Request(route string, status int, took time.Duration)
	// FirstToken is called with the time from a request to the first token of each of its choices.
	FirstToken(time.Duration)
	// TokenTime is called at the end of a choice with its mean time per token after the first, however slowly it was read.
	TokenTime(time.Duration)
}

// noMetrics are those of nobody.
type noMetrics struct{}

func (noMetrics) Request(string, int, time.Duration) {}
func (noMetrics) FirstToken(time.Duration)           {}
func (noMetrics) TokenTime(time.Duration)            {}

// check rejects values that would refuse every request.
func (o *Options) check() error {
	switch {
	case o.MaxBody < 0, o.MaxPrompt < 0, o.MaxTokens < 0:
		return fmt.Errorf("%w: api: MaxBody, MaxPrompt or MaxTokens is negative", kompute.ErrInvalid)
	case o.Timeout < 0, o.Stall < 0:
		return fmt.Errorf("%w: api: Timeout or Stall is negative", kompute.ErrInvalid)
	case o.Pooling != engine.PoolLast && o.Pooling != engine.PoolMean:
		return fmt.Errorf("%w: api: Pooling is %d, neither PoolLast nor PoolMean", kompute.ErrInvalid, o.Pooling)
	}
	return nil
}

// fill puts defaults in place of zeros.
func (o *Options) fill() {
	o.MaxBody = cmp.Or(o.MaxBody, 4<<20)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
	o.Stall = cmp.Or(o.Stall, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
}
