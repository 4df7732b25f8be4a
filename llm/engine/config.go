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
	// Context is the maximum number of tokens of a request, prompt and answer without
	// its last token, which is not fed; default and maximum: the model's context.
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
	// quarter.
	ChunkTokens int
	// BatchInvariant reduces ChunkTokens and Sequences so that no step has more rows than the
	// device keeps the bits of ([kompute.DeviceStats].InvariantRows). Then requests get the same
	// tokens whatever else runs, on every device and with prompts of any length, if weights are
	// affine or mxfp4. With 64 rows, ChunkTokens become at most 64, and Sequences at most 49; on
	// a device that keeps the bits of only one row, one request runs, and steps have one token
	// of its prompt. What it costs: docs/performance/requests.md.
	BatchInvariant bool
	// Draft is the maximum number of tokens that are guessed ahead for a request, from
	// what followed the same tokens earlier in its prompt and answer, and verified in
	// one step; 0 means none. It makes repetitive answers faster if few requests run:
	// as many tokens are guessed as fit into Sequences rows. Answers stay the same. Nothing is
	// guessed for requests with Request.Logits.
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
	if c.Context > limit {
		return fmt.Errorf("%w: engine: Context %d exceeds the model's %d", kompute.ErrInvalid, c.Context, limit)
	}
	most := limit + mostSequences // tokens of a step or of a page
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"Context", c.Context, limit},
		{"Sequences", c.Sequences, mostSequences},
		{"PageTokens", c.PageTokens, most},
		{"CacheTokens", c.CacheTokens, math.MaxInt32 - most},
		{"ChunkTokens", c.ChunkTokens, most},
		{"Queue", c.Queue, math.MaxInt32},
		{"Draft", c.Draft, math.MaxInt},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("%w: engine: %s is %d, not from 0 to %d", kompute.ErrInvalid, f.name, f.value, f.most)
		}
	}
	if c.CacheTokens < c.Context {
		return fmt.Errorf("%w: engine: CacheTokens %d is less than Context %d", kompute.ErrInvalid, c.CacheTokens, c.Context)
	}
	return nil
}

// on returns the configuration for a replica on a device.
func (c Config) on(d *kompute.Device) Config {
	if c.BatchInvariant {
		c.limitRows(max(1, d.Stats().InvariantRows)) // a closed device has 0
	}
	return c
}

// limitRows keeps steps within that many rows, 1 or more.
func (c *Config) limitRows(rows int) {
	c.ChunkTokens = min(c.ChunkTokens, rows)
	c.Sequences = min(c.Sequences, max(1, rows-c.promptShare()+1))
}

// promptShare is how many tokens of prompts a step may have, however many requests generate.
func (c *Config) promptShare() int { return (c.ChunkTokens + 3) / 4 }

// mostRows is the most rows of a step (scheduler.plan): one for each request that generates, and
// tokens of prompts up to ChunkTokens in all, but at least promptShare of them.
func (c *Config) mostRows() int {
	return max(c.ChunkTokens, c.Sequences-1+c.promptShare(), c.Sequences)
}

func defaultChunk(d kompute.DeviceInfo) int {
	if d.Type == "discrete" {
		return 1024
	}
	return 512
}

// pagesFor returns how many pages hold n tokens.
func (c *Config) pagesFor(n int) int { return (n + c.PageTokens - 1) / c.PageTokens }
