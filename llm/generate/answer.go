package generate

import (
	"slices"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Answer makes the text of an answer out of its tokens, and decides with which of them
// it ends: what sessions and engines have in common.
type Answer struct {
	decoder *tokenizer.Decoder
	stops   stopper
	eos     []int
	limit   int
	count   int
}

// NewAnswer returns an answer that ends with one of the tokens eos, before the first
// place where one of the texts stop appears, or with the token number limit.
func NewAnswer(t *tokenizer.Tokenizer, eos []int, limit int, stop []string) *Answer {
	return &Answer{decoder: t.NewDecoder(tokenizer.SkipSpecial), stops: stopper{stops: stop}, eos: eos, limit: limit}
}

// Add takes the next token and returns it with the text that is complete with it, and
// with the reason if the answer ends here. It does so as well if the caller knows that
// nothing can follow.
func (a *Answer) Add(id int, complete bool) Token {
	a.count++
	token, text := Token{ID: id}, ""
	switch {
	case slices.Contains(a.eos, id):
		token.Finish = FinishStop
	default:
		text = a.decoder.Push(id)
		if complete {
			token.Finish = FinishStop
		} else if a.count >= a.limit {
			token.Finish = FinishLength
		}
	}
	if token.Finish != "" {
		text += a.decoder.Flush()
	}
	stopped := false
	if token.Text, stopped = a.stops.push(text); stopped {
		token.Finish = FinishStop
	} else if token.Finish != "" {
		token.Text += a.stops.flush()
	}
	return token
}

// Rest returns the text that was held back, of an answer that ends before a token with
// a reason to.
func (a *Answer) Rest() string {
	rest, stopped := a.stops.push(a.decoder.Flush())
	if !stopped {
		rest += a.stops.flush()
	}
	return rest
}
