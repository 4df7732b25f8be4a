package engine

import (
	"context"
	"slices"

	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// sequence is a request that was accepted.
type sequence struct {
	request *Request
	stream  *Stream
	ctx     context.Context
	decoder *tokenizer.Decoder
	stops   stopper
	limit   int // the most tokens to generate

	tokens []int32 // the prompt and what was generated
	prompt int     // how many of them are the prompt
	// While it runs:
	fed   int     // tokens whose keys and values are in pages
	pages []*page // of those tokens, and of the next ones
	row   int     // of the page table
	turn  uint64  // the plan that fed it last
}

func (s *sequence) generated() int { return len(s.tokens) - s.prompt }

// waiting returns how many tokens are to be fed.
func (s *sequence) waiting() int { return len(s.tokens) - s.fed }

// accept takes the token that was chosen and passes it on. It reports whether the
// answer ends with it.
func (s *sequence) accept(id int) bool {
	s.tokens = append(s.tokens, int32(id))
	token := generate.Token{ID: id}
	switch {
	case slices.Contains(s.request.EOS, id):
		token.Finish = generate.FinishStop
	case s.generated() >= s.limit:
		token.Finish = generate.FinishLength
	}
	text := ""
	if token.Finish != generate.FinishStop {
		text = s.decoder.Push(id)
	}
	if token.Finish != "" {
		text += s.decoder.Flush()
	}
	stopped := false
	if token.Text, stopped = s.stops.push(text); stopped {
		token.Finish = generate.FinishStop
	} else if token.Finish != "" {
		token.Text += s.stops.flush()
	}
	s.stream.push(token)
	if token.Finish != "" {
		s.stream.end(token.Finish, nil)
	}
	return token.Finish != ""
}
