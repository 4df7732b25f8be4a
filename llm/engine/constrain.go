package engine

import (
	"math"
	"strings"

	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// constraint keeps an answer to a grammar, from where that begins.
type constraint struct {
	matcher *grammar.Matcher
	eos     []int
	after   string             // what it begins behind; empty once that has come
	seen    string             // the end of the text so far, while it waits for that
	decoder *tokenizer.Decoder // of that text
}

func newConstraint(r *Request, t *tokenizer.Tokenizer) *constraint {
	return &constraint{matcher: r.Grammar.Matcher(), eos: r.EOS, after: r.GrammarAfter, decoder: t.NewDecoder(tokenizer.KeepSpecial)}
}

// process is a processor that leaves only what may follow.
func (c *constraint) process(_ *sequence, logits []float32) error {
	if c.after != "" {
		return nil
	}
	ends := map[int]float32{}
	for _, id := range c.eos {
		if id >= 0 && id < len(logits) && c.matcher.Complete() {
			ends[id] = logits[id]
		}
	}
	impossible := float32(math.Inf(-1))
	for word, allowed := range c.matcher.Mask() {
		for i := range logits[word*64 : min(word*64+64, len(logits))] {
			if allowed>>i&1 == 0 {
				logits[word*64+i] = impossible
			}
		}
	}
	for id, v := range ends {
		logits[id] = v
	}
	return nil
}

// accept takes the token that was chosen. It reports whether nothing can follow.
func (c *constraint) accept(id int) bool {
	if c.after == "" {
		c.matcher.Accept(id) // EOS is no text
		return c.matcher.Ended()
	}
	c.seen += c.decoder.Push(id)
	if at := strings.Index(c.seen, c.after); at >= 0 {
		// What the same token has behind it is free as well.
		c.after, c.seen = "", ""
	} else {
		c.seen = c.seen[max(len(c.seen)-len(c.after), 0):]
	}
	return false
}
