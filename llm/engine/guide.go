package engine

import (
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// guide says which tokens may come next in an answer: none that ends it before
// Request.MinTokens, and those that Request.Grammar allows.
type guide struct {
	eos        []int
	least      int         // tokens before one of eos
	constraint *constraint // nil: there is no grammar
}

// newGuide returns the guide of a request; nil if all tokens may come at any time.
func newGuide(r *Request, vocabulary int, t *tokenizer.Tokenizer) *guide {
	g := &guide{eos: slices.DeleteFunc(slices.Clone(r.EOS), func(id int) bool { return id < 0 || id >= vocabulary })}
	if len(g.eos) > 0 {
		g.least = r.MinTokens
	}
	if r.Grammar != nil {
		g.constraint = newConstraint(r, t)
	}
	if g.least == 0 && g.constraint == nil {
		return nil
	}
	return g
}

// restricts reports whether it may be that not all tokens may come next in an answer of so many tokens.
func (g *guide) restricts(generated int) bool {
	return g != nil && (g.constraint != nil || generated < g.least)
}

// allow makes set the tokens that may come next in an answer of so many tokens. If all may, it
// returns false, and set stays as it is. Tokens of eos, which may have a text, are allowed where
// the answer may end: where a grammar's text may, and where the answer is free (constraint.free).
func (g *guide) allow(generated int, set tokenSet) (restricted bool, err error) {
	c, mayEnd := g.constraint, generated >= g.least
	switch {
	case c == nil || c.awaited != "" && c.free:
		if mayEnd {
			return false, nil
		}
		set.addAll()
	case c.awaited != "":
		mayEnd = false
		set.addAll()
	default:
		mask, err := c.matcher.Mask()
		if err != nil {
			return false, err
		}
		set.copyMask(mask)
		mayEnd = mayEnd && c.matcher.Complete()
	}
	for _, id := range g.eos {
		set.put(id, mayEnd)
	}
	return true, nil
}

// clone returns a guide that goes on from the same place, independently.
func (g *guide) clone() *guide {
	own := *g
	if g.constraint != nil {
		own.constraint = g.constraint.clone()
	}
	return &own
}

// accept records the chosen token, and reports whether nothing can follow it.
func (g *guide) accept(id int) bool {
	return g != nil && g.constraint != nil && g.constraint.accept(id)
}

// process is a processor with which only tokens can be chosen that may come next.
func (g *guide) process(q *sequence, logits []float32) error {
	set := newTokenSet(len(logits))
	restricted, err := g.allow(q.generated(), set)
	if err != nil || !restricted {
		return err
	}
	for id := range logits {
		if !set.has(id) {
			logits[id] = impossible
		}
	}
	return nil
}

// impossible is the logit of a token that must not be chosen.
var impossible = float32(math.Inf(-1))

// tokenSet is a set of tokens, in the form of ops.Mask.
type tokenSet []uint32

func newTokenSet(vocabulary int) tokenSet { return make(tokenSet, (vocabulary+31)/32) }

func (s tokenSet) has(id int) bool { return s[id/32]>>(id%32)&1 != 0 }

// put adds or removes a token.
func (s tokenSet) put(id int, in bool) {
	if bit := uint32(1) << (id % 32); in {
		s[id/32] |= bit
	} else {
		s[id/32] &^= bit
	}
}

func (s tokenSet) addAll() {
	for i := range s {
		s[i] = math.MaxUint32
	}
}

// copyMask makes the set that of a mask of grammar.Matcher. One of no vocabulary allows nothing.
func (s tokenSet) copyMask(mask []uint64) {
	clear(s)
	for i := range s {
		if i/2 < len(mask) {
			s[i] = uint32(mask[i/2] >> (i % 2 * 32))
		}
	}
}
