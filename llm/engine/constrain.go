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
	request   *Request
	tokenizer *tokenizer.Tokenizer
	matcher   *grammar.Matcher
	awaited   string             // the text after which the grammar begins; empty while it holds
	free      bool               // the answer may end before that text
	seen      string             // the end of the text so far, while it is awaited
	decoder   *tokenizer.Decoder // the decoder of that text
}

func newConstraint(r *Request, t *tokenizer.Tokenizer) *constraint {
	c := &constraint{request: r, tokenizer: t, matcher: r.Grammar.Matcher()}
	if c.await(r.GrammarAfter, false); c.awaited == "" {
		c.await(r.GrammarTrigger, true)
	}
	return c
}

// await lets the answer be free until a text has come.
func (c *constraint) await(text string, free bool) {
	c.awaited, c.free, c.seen, c.decoder = text, free, "", c.tokenizer.NewDecoder(tokenizer.KeepSpecial)
}

// impossible is the logit of a token that must not be chosen.
var impossible = float32(math.Inf(-1))

// process is a processor that allows only tokens that may follow. Those of EOS, which may
// have a text, do so where the constrained text may end, and so not before it has begun.
func (c *constraint) process(_ *sequence, logits []float32) error {
	if c.awaited != "" && c.free {
		return nil
	}
	ends := map[int]float32{}
	for _, id := range c.request.EOS {
		if id < 0 || id >= len(logits) {
			continue
		}
		ends[id] = impossible // whatever its text
		if c.awaited == "" && c.matcher.Complete() {
			ends[id] = logits[id]
		}
	}
	if c.awaited == "" {
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
	if c.awaited == "" {
		if !slices.Contains(c.request.EOS, id) { // which end the answer, and are no part of its text
			c.matcher.Accept(id)
		}
		return c.ended()
	}
	c.seen += c.decoder.Push(id)
	for c.awaited != "" {
		at := strings.Index(c.seen, c.awaited)
		if at < 0 {
			c.seen = c.seen[max(len(c.seen)-len(c.awaited), 0):]
			return false
		}
		rest := c.seen[at+len(c.awaited):]
		if !c.free && c.request.GrammarTrigger != "" { // it was GrammarAfter
			c.await(c.request.GrammarTrigger, true)
			c.seen = rest
			continue
		}
		c.awaited, c.seen = "", ""
		c.matcher.AcceptText(rest) // if it is rejected, the constrained text begins with the next token
	}
	return c.ended()
}

// ended reports whether nothing can follow. With a trigger, the answer goes on freely.
func (c *constraint) ended() bool {
	if !c.matcher.Ended() {
		return false
	}
	if c.request.GrammarTrigger == "" {
		return true
	}
	c.matcher = c.request.Grammar.Matcher()
	c.await(c.request.GrammarTrigger, true)
	return false
}
