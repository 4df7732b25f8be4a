// Package sample turns logits into tokens: greedy, or random at a temperature
// with top-p, min-p and top-k filters.
//
// The filters and their order are those of mlx_lm: top-p, then min-p, then
// top-k, all on the log-probabilities at temperature 1; then one draw from what
// is left, at the temperature asked for. Random numbers come from a
// counter-based generator, so a token depends on the logits, the seed and the
// number of the step, and on nothing else: every backend draws the same tokens.
package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrParams is what an error about sampling parameters wraps.
var ErrParams = errors.New("invalid sampling parameter")

// ErrLogits is returned where logits hold a NaN, +Inf, or nothing finite.
var ErrLogits = errors.New("invalid logits")

// Params says how to choose a token. The zero value is greedy.
type Params struct {
	// Temperature divides the log-probabilities; 0 is greedy, and then no other
	// field counts.
	Temperature float64
	// TopP keeps the smallest set of most likely tokens whose probability
	// reaches it; 0 and 1 keep all.
	TopP float64
	// MinP keeps tokens at least MinP times as likely as the likeliest; 0 keeps all.
	MinP float64
	// TopK keeps the TopK most likely tokens; 0 keeps all.
	TopK int
	// Seed chooses the sequence of random numbers.
	Seed uint64
}

// Greedy reports whether p always takes the most likely token.
func (p Params) Greedy() bool { return p.Temperature == 0 }

// Validate returns an error that wraps [ErrParams] and names the parameter that
// is out of range.
func (p Params) Validate() error {
	switch {
	case math.IsNaN(p.Temperature) || p.Temperature < 0 || math.IsInf(p.Temperature, 0):
		return fmt.Errorf("%w: temp %v is not a finite number >= 0", ErrParams, p.Temperature)
	case math.IsNaN(p.TopP) || p.TopP < 0 || p.TopP > 1:
		return fmt.Errorf("%w: top-p %v is not in [0, 1]", ErrParams, p.TopP)
	case math.IsNaN(p.MinP) || p.MinP < 0 || p.MinP > 1:
		return fmt.Errorf("%w: min-p %v is not in [0, 1]", ErrParams, p.MinP)
	case p.TopK < 0:
		return fmt.Errorf("%w: top-k %d is negative", ErrParams, p.TopK)
	}
	return nil
}

// Sampler draws tokens. It reuses its memory between calls, so it serves one
// goroutine at a time.
type Sampler struct {
	params Params
	logp   []float64
	order  []int32
}

// New returns a sampler, or the error of [Params.Validate].
func New(p Params) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Sampler{params: p}, nil
}

// Sample returns the token to follow: logits holds one number per token, step
// counts the tokens drawn so far.
func (s *Sampler) Sample(logits []float32, step uint64) (uint32, error) {
	best, err := argMax(logits)
	if err != nil || s.params.Greedy() {
		return best, err
	}
	s.logSoftmax(logits, float64(logits[best]))
	kept := s.filter(s.logp[best])
	return s.draw(kept, s.logp[best], Uniform(s.params.Seed, step)), nil
}

// argMax returns the first of the largest logits.
func argMax(logits []float32) (uint32, error) {
	best := 0
	for i, l := range logits {
		if l != l || math.IsInf(float64(l), 1) {
			return 0, fmt.Errorf("%w: token %d has %v", ErrLogits, i, l)
		}
		if l > logits[best] {
			best = i
		}
	}
	if len(logits) == 0 || math.IsInf(float64(logits[best]), -1) {
		return 0, fmt.Errorf("%w: none of %d is finite", ErrLogits, len(logits))
	}
	return uint32(best), nil
}

// logSoftmax fills s.logp with the log-probabilities.
func (s *Sampler) logSoftmax(logits []float32, largest float64) {
	s.logp = slices.Grow(s.logp[:0], len(logits))[:len(logits)]
	sum := 0.0
	for i, l := range logits {
		s.logp[i] = float64(l) - largest
		sum += math.Exp(s.logp[i])
	}
	norm := math.Log(sum)
	for i := range s.logp {
		s.logp[i] -= norm
	}
}

// filter returns the tokens that pass every filter, in ascending order, or nil
// for all of them. Ordered by falling probability, and by number among equals,
// each filter keeps a prefix; so the tokens are taken in that order until the
// first filter is exhausted.
func (s *Sampler) filter(best float64) []int32 {
	p := s.params
	limit := len(s.logp)
	if p.TopK > 0 {
		limit = min(limit, p.TopK)
	}
	mass := math.Inf(1)
	if p.TopP > 0 && p.TopP < 1 {
		mass = p.TopP
	}
	least := math.Inf(-1)
	if p.MinP > 0 {
		least = best + math.Log(p.MinP)
	}
	if limit == len(s.logp) && math.IsInf(mass, 1) && math.IsInf(least, -1) {
		return nil
	}
	return s.mostLikely(limit, mass, least)
}

// mostLikely takes tokens by falling probability until limit of them are there,
// their probability reaches mass, or the next one is less likely than least.
// The first is always taken.
func (s *Sampler) mostLikely(limit int, mass, least float64) []int32 {
	heap := s.order[:0]
	for i, lp := range s.logp {
		if lp >= least {
			heap = append(heap, int32(i))
		}
	}
	s.order = heap
	for i := len(heap)/2 - 1; i >= 0; i-- {
		s.siftDown(heap, i)
	}
	taken, sum := 0, 0.0
	for len(heap) > 0 && taken < limit && sum < mass {
		last := len(heap) - 1
		sum += math.Exp(s.logp[heap[0]])
		heap[0], heap[last] = heap[last], heap[0]
		heap = heap[:last]
		s.siftDown(heap, 0)
		taken++
	}
	kept := s.order[len(s.order)-taken:] // popped elements gather at the end
	slices.Sort(kept)
	return kept
}

// siftDown restores the heap below node i: the likelier token on top, the
// smaller number among equals.
func (s *Sampler) siftDown(heap []int32, i int) {
	before := func(a, b int32) bool {
		return s.logp[a] > s.logp[b] || s.logp[a] == s.logp[b] && a < b
	}
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && before(heap[child+1], heap[child]) {
			child++
		}
		if !before(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// draw picks one of the kept tokens (nil: any) with probability proportional to
// exp(logp/temperature): the first whose running sum exceeds u times the total.
// Going by token number, not by rank, two tokens of nearly equal probability
// that swap ranks between backends leave the choice as it was.
func (s *Sampler) draw(kept []int32, best, u float64) uint32 {
	n := len(s.logp)
	token := func(i int) int32 { return int32(i) }
	if kept != nil {
		n = len(kept)
		token = func(i int) int32 { return kept[i] }
	}
	weight := func(i int) float64 { return math.Exp((s.logp[token(i)] - best) / s.params.Temperature) }
	total := 0.0
	for i := range n {
		total += weight(i)
	}
	target, sum, last := u*total, 0.0, int32(0)
	for i := range n {
		w := weight(i)
		if w == 0 {
			continue
		}
		last = token(i)
		if sum += w; sum > target {
			break
		}
	}
	return uint32(last)
}
