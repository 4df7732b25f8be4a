package engine

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// chooser chooses the tokens of a request with Request.Logits on the host, from logits that
// processors have changed. sample.Sampler draws in the same way as the device, and processors
// change logits as it does, so the tokens are those that the device would choose if Logits
// changed nothing.
type chooser struct {
	sampler    *sample.Sampler
	processors []processor
}

// processor changes logits before the next token of a sequence is chosen.
type processor func(q *sequence, logits []float32) error

// newChooser returns the chooser of a valid request with those penalties and that guide, or nil if
// the device can choose.
func newChooser(r *Request, p *penalties, g *guide) *chooser {
	if r.Logits == nil {
		return nil
	}
	c := &chooser{}
	if p != nil {
		c.processors = append(c.processors, p.processor())
	}
	if len(r.LogitBias) > 0 {
		c.processors = append(c.processors, biases(r.LogitBias))
	}
	if g != nil && g.least > 0 {
		c.processors = append(c.processors, (&guide{eos: g.eos, least: g.least}).process)
	}
	c.processors = append(c.processors, r.hook)
	if g != nil && g.constraint != nil {
		c.processors = append(c.processors, (&guide{eos: g.eos, constraint: g.constraint}).process)
	}
	c.sampler, _ = sample.New(r.Sampling) // was checked
	return c
}

// choose returns the next token of q, and changes logits.
func (c *chooser) choose(q *sequence, logits []float32) (uint32, error) {
	for _, p := range c.processors {
		if err := p(q, logits); err != nil {
			return 0, err
		}
	}
	return c.sampler.Sample(logits, uint64(q.generated()))
}

// hook calls Logits. A panic there ends the request, not the process.
func (r *Request) hook(q *sequence, logits []float32) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrLogitsPanic, p, debug.Stack())
		}
	}()
	return r.Logits(q.tokens, logits)
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

// logprob returns the log-probability of a token that was chosen, and those of others for which
// the request asks.
func (r *Request) logprob(id uint32, logits []float32) *generate.Logprob {
	norm := fallback.LogSumExp(logits)
	of := func(id int) generate.Logprob { return generate.Logprob{ID: id, Value: float64(logits[id]) - norm} }
	out := of(int(id))
	out.Top = likeliest(logits, norm, r.TopLogprobs)
	for _, id := range r.LogprobsOf {
		out.Of = append(out.Of, of(id))
	}
	return &out
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

// choice is a token that was chosen, and what is known about it.
type choice struct {
	id    uint32
	about *generate.Logprob
	err   error
}

var errNotChosen = errors.New("engine: Logits has ended its goroutine instead of returning")

// rows are spare copies of logits.
var rows = sync.Pool{New: func() any { return new([]float32) }}

// look returns the choices of the pieces that need logits on the host, for their log-probabilities
// or to choose a token; different pieces concurrently. It fails if logits cannot be read.
func look(f *pendingStep, logits *kompute.Mapped[float32], vocabulary int) ([]choice, error) {
	if f.onHost == 0 {
		return nil, nil
	}
	out, unread := make([]choice, f.onHost), make([]error, len(f.pieces))
	var wg sync.WaitGroup
	for i := range f.pieces {
		if p := &f.pieces[i]; p.needsLogits() && p.chosen > 0 && !p.ended.Load() {
			wg.Go(func() { unread[i] = p.look(out[p.at:], f.tokens[p.at:], logits, vocabulary) })
		}
	}
	wg.Wait()
	return out, errors.Join(unread...)
}

// look sets the choices after the rows of a piece, for which the device has chosen tokens, up
// to the first that shows a guess to be wrong.
func (p *piece) look(out []choice, tokens []uint32, logits *kompute.Mapped[float32], vocabulary int) error {
	row := rows.Get().(*[]float32)
	defer rows.Put(row)
	*row = slices.Grow((*row)[:0], vocabulary)[:vocabulary]
	for j := range p.chosen {
		if err := logits.Peek(*row, (p.at+j)*vocabulary); err != nil {
			return err
		}
		out[j].id = tokens[j]
		p.complete(&out[j], *row)
		if j < len(p.draft) && int32(out[j].id) != p.draft[j] {
			break
		}
	}
	return nil
}

// complete adds to a choice of the device what the host finds out: another token, if the host chooses, and
// log-probabilities. It may change logits.
func (p *piece) complete(c *choice, logits []float32) {
	if p.chooser != nil {
		changed := logits
		if p.request.Logprobs {
			own := rows.Get().(*[]float32)
			defer rows.Put(own)
			*own = append((*own)[:0], logits...)
			changed = *own
		}
		c.err = errNotChosen
		c.id, c.err = p.chooser.choose(p.sequence, changed)
	}
	if c.err == nil && p.request.Logprobs && sample.Check(c.id) == nil {
		c.about = p.request.logprob(c.id, logits)
	}
}
