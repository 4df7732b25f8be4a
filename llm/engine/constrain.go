package engine

import (
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

// clone returns a constraint that goes on from the same place, independently.
func (c *constraint) clone() *constraint {
	own := *c
	own.matcher, own.decoder = c.matcher.Clone(), c.decoder.Clone()
	return &own
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
