package engine

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// chooser chooses the tokens of a request on the host, from logits that processors
// have changed. sample.Sampler draws in the same way as the device, so a chooser
// without processors gives the same tokens as the device.
type chooser struct {
	sampler    *sample.Sampler
	processors []processor
	constraint *constraint // one of the processors, or nil
	logprobs   bool
	top        int
	of         []int
}

// processor changes logits before the next token of a sequence is chosen.
type processor func(q *sequence, logits []float32) error

// newChooser returns the chooser of a valid request with those penalties, or nil if the
// device can choose.
func newChooser(r *Request, p *penalties, t *tokenizer.Tokenizer) *chooser {
	c := &chooser{logprobs: r.Logprobs, top: r.TopLogprobs, of: r.LogprobsOf}
	if len(r.LogitBias) > 0 {
		c.processors = append(c.processors, biases(r.LogitBias))
	}
	if r.MinTokens > 0 && len(r.EOS) > 0 {
		c.processors = append(c.processors, notBefore(r.MinTokens, r.EOS))
	}
	if r.Logits != nil {
		c.processors = append(c.processors, func(q *sequence, logits []float32) error { return r.Logits(q.tokens, logits) })
	}
	if r.Grammar != nil {
		c.constraint = newConstraint(r, t)
		c.processors = append(c.processors, c.constraint.process)
	}
	if len(c.processors) == 0 && !c.logprobs {
		return nil
	}
	if p != nil { // before the others
		c.processors = slices.Insert(c.processors, 0, p.processor())
	}
	c.sampler, _ = sample.New(r.Sampling) // was checked
	return c
}

// accept records the chosen token, and reports whether nothing can follow it.
func (c *chooser) accept(id int) bool {
	return c != nil && c.constraint != nil && c.constraint.accept(id)
}

// rows are spare copies of logits.
var rows = sync.Pool{New: func() any { return new([]float32) }}

// choose returns the next token of q and, if requested, its log-probability. It may change
// logits.
func (c *chooser) choose(q *sequence, logits []float32) (uint32, *generate.Logprob, error) {
	var about *generate.Logprob
	var norm float64
	raw := logits
	if c.logprobs {
		norm = fallback.LogSumExp(logits)
		about = &generate.Logprob{Top: likeliest(logits, norm, c.top)}
		for _, id := range c.of {
			about.Of = append(about.Of, generate.Logprob{ID: id, Value: float64(logits[id]) - norm})
		}
	}
	if about != nil && len(c.processors) > 0 {
		row := rows.Get().(*[]float32)
		defer rows.Put(row)
		*row = append((*row)[:0], logits...)
		logits = *row
	}
	for _, p := range c.processors {
		if err := p(q, logits); err != nil {
			return 0, nil, err
		}
	}
	id, err := c.sampler.Sample(logits, uint64(q.generated()))
	if err == nil && about != nil {
		about.ID, about.Value = int(id), float64(raw[id])-norm
	}
	return id, about, err
}

// biases implements Request.LogitBias.
func biases(by map[int]float64) processor {
	return func(_ *sequence, logits []float32) error {
		for id, v := range by {
			logits[id] += float32(v)
		}
		return nil
	}
}

// notBefore implements Request.MinTokens.
func notBefore(tokens int, eos []int) processor {
	return func(q *sequence, logits []float32) error {
		if q.generated() < tokens {
			for _, id := range eos {
				if id >= 0 && id < len(logits) {
					logits[id] = impossible
				}
			}
		}
		return nil
	}
}

// likeliest returns the n likeliest tokens, the lower id first among equals.
func likeliest(logits []float32, norm float64, n int) []generate.Logprob {
	if n == 0 {
		return nil
	}
	type entry struct {
		id int
		v  float32
	}
	best := make([]entry, 0, n+1)
	for id, v := range logits {
		if len(best) == n && v <= best[n-1].v {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, v, func(b entry, v float32) int {
			return cmp.Or(cmp.Compare(v, b.v), -1) // after its equals
		})
		best = slices.Insert(best, at, entry{id, v})
		best = best[:min(len(best), n)]
	}
	out := make([]generate.Logprob, len(best))
	for i, b := range best {
		out[i] = generate.Logprob{ID: b.id, Value: float64(b.v) - norm}
	}
	return out
}

// choice is the host's choice for a piece.
type choice struct {
	id    uint32
	about *generate.Logprob
	err   error
}

var errNotChosen = errors.New("engine: Logits has ended its goroutine instead of returning")

// chooseAll chooses the tokens of the pieces that need it from their rows of
// logits, concurrently. It fails if logits cannot be read.
func chooseAll(f *pendingStep, logits *kompute.Mapped[float32], vocabulary int) ([]choice, error) {
	if f.onHost == 0 {
		return nil, nil
	}
	out, unread := make([]choice, f.onHost), make([]error, f.onHost)
	var wg sync.WaitGroup
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.chooser == nil || p.chosen == 0 || p.ended.Load() {
			continue
		}
		wg.Go(func() {
			row := rows.Get().(*[]float32)
			defer rows.Put(row)
			*row = slices.Grow((*row)[:0], vocabulary)[:vocabulary]
			if unread[p.at] = logits.Peek(*row, p.at*vocabulary); unread[p.at] == nil {
				c := &out[p.at]
				c.err = errNotChosen
				c.id, c.about, c.err = p.chooser.choose(p.sequence, *row)
			}
		})
	}
	wg.Wait()
	return out, errors.Join(unread...)
}
