package engine

import (
	"math"
	"strings"

	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// constraint restricts an answer to a grammar, from the point where that begins.
type constraint struct {
	matcher *grammar.Matcher
	eos     []int
	after   string             // the text after which it begins; empty once that has come
	seen    string             // the end of the text so far, while it waits for the beginning
	decoder *tokenizer.Decoder // the decoder of that text
}

func newConstraint(r *Request, t *tokenizer.Tokenizer) *constraint {
	return &constraint{matcher: r.Grammar.Matcher(), eos: r.EOS, after: r.GrammarAfter, decoder: t.NewDecoder(tokenizer.KeepSpecial)}
}

// process is a processor that allows only tokens that may follow.
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

// accept records the chosen token. It reports whether nothing can follow.
func (c *constraint) accept(id int) bool {
	if c.after == "" {
		c.matcher.Accept(id) // EOS is not text
		return c.matcher.Ended()
	}
	c.seen += c.decoder.Push(id)
	if at := strings.Index(c.seen, c.after); at >= 0 {
		c.matcher.AcceptText(c.seen[at+len(c.after):]) // if it is rejected, the constrained text begins with the next token
		c.after, c.seen = "", ""
		return c.matcher.Ended()
	} else {
		c.seen = c.seen[max(len(c.seen)-len(c.after), 0):]
	}
	return false
}
