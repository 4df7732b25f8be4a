package engine

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// Stream is the answer to one request, token by token. Tokens wait in it until
// they are read, so a slow reader delays nothing. It may be used by several
// goroutines.
type Stream struct {
	cancel context.CancelFunc

	mu          sync.Mutex
	more        sync.Cond // signalled when there is more to read
	tokens      []generate.Token
	cached      int       // tokens of the prompt that were not computed
	first, last time.Time // when they came
	text        strings.Builder
	finish      string
	ended       bool
	err         error
}

var errNoStream = fmt.Errorf("%w: the stream is nil, or Submit did not make it", kompute.ErrInvalid)

// made reports whether the stream is neither nil nor zero.
func (s *Stream) made() bool { return s != nil && s.cancel != nil }

func newStream(cancel context.CancelFunc) *Stream {
	s := &Stream{cancel: cancel}
	s.more.L = &s.mu
	return s
}

// Tokens yields the tokens, from the first one on, as they are generated. An
// error comes last, with the zero token. Leaving the loop cancels the request.
func (s *Stream) Tokens() iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) {
		if !s.made() {
			yield(generate.Token{}, errNoStream)
			return
		}
		for i := 0; ; i++ {
			token, ok, err := s.at(i)
			if !ok {
				if err != nil {
					yield(generate.Token{}, err)
				}
				return
			}
			if !yield(token, nil) {
				s.cancel()
				return
			}
		}
	}
}

// at waits for token i; ok is false if the answer has ended before it.
func (s *Stream) at(i int) (token generate.Token, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i >= len(s.tokens) {
		if s.ended {
			return token, false, s.err
		}
		s.more.Wait()
	}
	return s.tokens[i], true, nil
}

// Result waits for the end of the answer and returns all of it. If the request was
// cancelled or failed, it returns the answer so far with the error. If ctx ends
// first, the result is nil and the request continues.
func (s *Stream) Result(ctx context.Context) (*generate.Result, error) {
	if !s.made() {
		return nil, errNoStream
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.more.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.more.Wait()
	}
	result := &generate.Result{Text: s.text.String(), Finish: s.finish}
	for i := range s.tokens {
		t := &s.tokens[i]
		result.IDs = append(result.IDs, t.ID)
		if t.Logprob != nil {
			result.Logprobs = append(result.Logprobs, *t.Logprob)
		}
	}
	return result, s.err
}

// Times returns how many tokens were generated so far, and when the first and the last of
// them were, whether they have been read or not. The times are zero if there are none.
func (s *Stream) Times() (tokens int, first, last time.Time) {
	if !s.made() {
		return 0, first, last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens), s.first, s.last
}

// Cached returns how many tokens of the prompt were not computed when the request began, because their keys and values
// were in the cache. It is 0 until then.
func (s *Stream) Cached() int {
	if !s.made() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cached
}

// begin records how many tokens of the prompt are not computed.
func (s *Stream) begin(cached int) {
	if !s.made() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = cached
}

// Cancel ends the request; its result is the answer so far, with
// context.Canceled. After the end it does nothing.
func (s *Stream) Cancel() {
	if s.made() {
		s.cancel()
	}
}

// push adds a token and its text.
func (s *Stream) push(t generate.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if len(s.tokens) == 0 {
		s.first = s.last
	}
	s.tokens = append(s.tokens, t)
	s.text.WriteString(t.Text)
	s.finish = t.Finish
	s.more.Broadcast()
}

// end closes the stream; err is nil after a token with a reason to finish. rest is
// text that was held back, which only Result returns.
func (s *Stream) end(finish, rest string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	s.text.WriteString(rest)
	if err != nil {
		s.finish = finish
	}
	s.more.Broadcast()
}
