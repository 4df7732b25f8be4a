package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// Pooling selects how the states of a text's tokens become one vector.
type Pooling int

const (
	PoolLast Pooling = iota // the state of the last token, for Qwen3-Embedding
	PoolMean                // the mean of all states
)

// EmbedRequest asks for the embeddings of texts.
type EmbedRequest struct {
	Inputs  [][]int // token ids of each text
	Pooling Pooling
	// Dimensions is how many numbers of each embedding are kept, from its beginning on
	// (Matryoshka embeddings; Kusupati et al., 2022), before it is scaled; 0 is all, which
	// is model.Limits.Width.
	Dimensions int
	// Raw leaves the embeddings as they are; else they are scaled to length one.
	Raw bool
}

// embedding collects the states of a sequence that has no tokens to generate.
type embedding struct {
	pooling Pooling
	counted int       // tokens whose states are known
	sum     []float64 // their sum, or the state of the last one
}

// Embed returns the embedding of each input: the pooled states of its tokens after the
// model's final norm. The inputs are computed in the steps of the other requests, as
// prompts are, and as many at once as there is room for; an embedding does not depend
// on other requests, except for its last bits. If ctx ends, so does the call.
//
// It fails with kompute.ErrInvalid unless there are 1 … Queue inputs, and for other fields,
// and with the errors of Submit; with ErrBusy unless all inputs can wait or run.
func (e *Engine) Embed(ctx context.Context, r EmbedRequest) ([][]float32, error) {
	if !e.made() {
		return nil, engineError(kompute.ErrClosed)
	}
	switch {
	case len(r.Inputs) == 0 || len(r.Inputs) > e.config.Queue:
		return nil, fmt.Errorf("%w: %d inputs, of 1 … Queue, %d", kompute.ErrInvalid, len(r.Inputs), e.config.Queue)
	case r.Pooling != PoolLast && r.Pooling != PoolMean:
		return nil, fmt.Errorf("%w: Pooling %d", kompute.ErrInvalid, r.Pooling)
	case r.Dimensions < 0 || r.Dimensions > e.limits.Width:
		return nil, fmt.Errorf("%w: Dimensions %d is not in 0 … %d", kompute.ErrInvalid, r.Dimensions, e.limits.Width)
	}
	all := make([]*sequence, 0, len(r.Inputs))
	defer func() {
		for _, q := range all {
			q.stream.Cancel()
		}
	}()
	for i, ids := range r.Inputs {
		if err := e.checkPrompt(ids); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		q := e.newSequence(ctx, ids)
		q.request, q.limit = &Request{}, 1
		q.embed = &embedding{pooling: r.Pooling, sum: make([]float64, e.limits.Width)}
		all = append(all, q)
	}
	if err := e.enqueue(all); err != nil {
		return nil, err
	}
	out := make([][]float32, len(all))
	for i, q := range all {
		if _, err := q.stream.Result(context.WithoutCancel(ctx)); err != nil { // which ends with ctx
			return nil, err
		}
		out[i] = q.embed.vector(&r)
	}
	return out, nil
}

// begin discards the states so far: the sequence is fed from its beginning.
func (v *embedding) begin() {
	clear(v.sum)
	v.counted = 0
}

// take adds the states of a piece. It reports whether they
// are those of the last ones.
func (v *embedding) take(p *piece, states []float32) bool {
	width := len(v.sum)
	for i := range p.count {
		if v.pooling == PoolLast {
			clear(v.sum)
		}
		for j, x := range states[i*width:][:width] {
			v.sum[j] += float64(x)
		}
	}
	v.counted += p.count
	return p.first+p.count == len(p.tokens)
}

// vector returns the embedding.
func (v *embedding) vector(r *EmbedRequest) []float32 {
	sum := v.sum
	if r.Dimensions > 0 {
		sum = sum[:r.Dimensions]
	}
	scale, squares := 1.0, 0.0
	for _, x := range sum {
		squares += x * x
	}
	switch {
	case !r.Raw && squares > 0:
		scale = 1 / math.Sqrt(squares)
	case r.Raw && v.pooling == PoolMean:
		scale = 1 / float64(v.counted)
	}
	out := make([]float32, len(sum))
	for i, x := range sum {
		out[i] = float32(x * scale)
	}
	return out
}

// embedded records the states of a piece, unless its sequence has left the replica
// since it was planned: then they will be computed again.
func (r *replica) embedded(p *piece, states []float32) {
	if p.ended.Load() || p.on != r.scheduler || p.since != p.admission {
		return
	}
	if !p.embed.take(p, states) {
		return
	}
	var err error
	for _, x := range p.embed.sum {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			err = errors.New("engine: an embedding is not finite")
		}
	}
	r.engine.end(p.sequence, generate.FinishError, err)
	p.sequence.end(generate.FinishStop, "", nil)
}
