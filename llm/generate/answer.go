package generate

import (
	"slices"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Answer turns the tokens of an answer into its text, and decides which of them is the
// last. Sessions and engines share it.
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

// Add takes the next token and returns it with the text that it completes and, if the
// answer ends here, with the reason.
func (a *Answer) Add(id int) Token { return a.add(id, false) }

// AddLast is Add for a token that the caller knows to be the last one.
func (a *Answer) AddLast(id int) Token { return a.add(id, true) }

func (a *Answer) add(id int, last bool) Token {
	a.count++
	token, text := Token{ID: id}, ""
	switch {
	case slices.Contains(a.eos, id):
		token.Finish = FinishStop
	default:
		text = a.decoder.Push(id)
		if last {
			token.Finish = FinishStop
		} else if a.count >= a.limit {
			token.Finish = FinishLength
		}
	}
	if token.Finish != "" {
		text += a.decoder.Flush()
	}
	stopped := false
	if token.Text, stopped = a.stops.push(text); !stopped && token.Finish != "" {
		rest := ""
		rest, stopped = a.stops.flush()
		token.Text += rest
	}
	if stopped {
		token.Finish, token.Stop = FinishStop, a.stops.found
		a.decoder.Flush() // which comes after the stop string
	}
	return token
}

// Rest returns the text that was held back from an answer that ends without a token
// that has a reason to finish.
func (a *Answer) Rest() string {
	text, stopped := a.stops.push(a.decoder.Flush())
	if !stopped {
		rest, _ := a.stops.flush()
		text += rest
	}
	return text
}
