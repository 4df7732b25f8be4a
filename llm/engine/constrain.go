package engine

import (
	"math"
	"slices"
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

// impossible is the logit of a token that must not be chosen.
var impossible = float32(math.Inf(-1))

// process is a processor that allows only tokens that may follow. Those of EOS, which may
// have a text, do so where the constrained text may end, and so not before it has begun.
func (c *constraint) process(_ *sequence, logits []float32) error {
	ends := map[int]float32{}
	for _, id := range c.eos {
		if id < 0 || id >= len(logits) {
			continue
		}
		ends[id] = impossible // whatever its text
		if c.after == "" && c.matcher.Complete() {
			ends[id] = logits[id]
		}
	}
	if c.after == "" {
		if err := c.mask(logits); err != nil {
			return err
		}
	}
	for id, v := range ends {
		logits[id] = v
	}
	return nil
}

// mask makes tokens impossible that the grammar does not allow.
func (c *constraint) mask(logits []float32) error {
	mask, err := c.matcher.Mask()
	if err != nil {
		return err
	}
	for word, allowed := range mask {
		for i := range logits[word*64 : min(word*64+64, len(logits))] {
			if allowed>>i&1 == 0 {
				logits[word*64+i] = impossible
			}
		}
	}
	return nil
}

// accept records the chosen token. It reports whether nothing can follow.
func (c *constraint) accept(id int) bool {
	if c.after == "" {
		if !slices.Contains(c.eos, id) { // which end the answer, and are no part of its text
			c.matcher.Accept(id)
		}
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
