package engine

import (
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Config determines how an engine divides the device among requests. Zeros mean
// the defaults.
type Config struct {
	// Sequences is how many requests run at once; default 32.
	Sequences int
	// Context is the maximum number of tokens of a request, prompt and answer;
	// default and maximum: the model's context.
	Context int
	// PageTokens is how many tokens a page of keys and values holds; default 64.
	PageTokens int
	// CacheTokens is how many tokens all requests together can hold, rounded up to
	// pages; default: Context, or 1,024 for each of Sequences if that is more. It is
	// at least Context, so that any accepted request can run alone.
	CacheTokens int
	// CacheType is the type of keys and values, as in model.Options; 0 is that of the
	// model, and gives the same tokens as a generate.Session of it. The same-tokens
	// promise holds for every type: only among engines of different types may tokens
	// differ.
	CacheType kompute.DType
	// ChunkTokens is the maximum number of prompt tokens in one step; default 512, and
	// 1,024 on a discrete GPU. More make prompts faster, and let the tokens of others
	// wait longer. Tokens of requests that generate are subtracted from it, down to a
	// quarter. With 64, and at most 48 Sequences, no step has more than 64 rows; with 16,
	// and at most 12, none more than 16.
	ChunkTokens int
	// Draft is the maximum number of tokens that are guessed ahead for a request, from
	// what followed the same tokens earlier in its prompt and answer, and verified in
	// one step; 0 means none. It makes repetitive answers faster if few requests run:
	// as many tokens are guessed as fit into Sequences rows. Answers stay the same.
	Draft int
	// Queue is how many requests may wait, besides those that can run at once: Sequences
	// on each device; default 256. Further ones are refused with [ErrBusy].
	Queue int
}

const mostSequences = 1 << 14

// fill sets defaults and checks the configuration for a model.
func (c *Config) fill(m model.Model) error {
	limit := m.Limits().Context
	set := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	set(&c.Sequences, 32)
	set(&c.Context, limit)
	set(&c.PageTokens, 64)
	set(&c.ChunkTokens, defaultChunk(m.Device().Info()))
	set(&c.Queue, 256)
	set(&c.CacheTokens, max(c.Context, 1024*min(c.Sequences, mostSequences)))
	for name, v := range map[string]int{
		"Sequences": c.Sequences, "Context": c.Context, "PageTokens": c.PageTokens,
		"CacheTokens": c.CacheTokens, "ChunkTokens": c.ChunkTokens, "Queue": c.Queue, "Draft": c.Draft,
	} {
		if v < 0 {
			return fmt.Errorf("%w: engine: %s is %d", kompute.ErrInvalid, name, v)
		}
	}
	switch {
	case c.Sequences > mostSequences || c.Queue > math.MaxInt32 || c.ChunkTokens > limit+mostSequences || c.PageTokens > limit+mostSequences || c.CacheTokens > math.MaxInt32-c.PageTokens:
		return fmt.Errorf("%w: engine: more than %d Sequences, or more tokens than can be numbered: %+v", kompute.ErrInvalid, mostSequences, *c)
	case c.Context > limit:
		return fmt.Errorf("%w: engine: Context %d exceeds the model's %d", kompute.ErrInvalid, c.Context, limit)
	case c.CacheTokens < c.Context:
		return fmt.Errorf("%w: engine: CacheTokens %d is less than Context %d", kompute.ErrInvalid, c.CacheTokens, c.Context)
	}
	return nil
}

func defaultChunk(d kompute.DeviceInfo) int {
	if d.Type == "discrete" {
		return 1024
	}
	return 512
}

// pagesFor returns how many pages hold n tokens.
func (c *Config) pagesFor(n int) int { return (n + c.PageTokens - 1) / c.PageTokens }
