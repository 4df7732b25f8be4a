package engine

import (
	"context"
	"iter"
	"sync"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// Stream is the answer to one request, as it comes. Tokens wait in it until they
// are read, so a slow reader holds up nobody. It may be used by several
// goroutines.
type Stream struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	change chan struct{} // closed when there is more to read
	tokens []generate.Token
	result generate.Result
	ended  bool
	err    error
}

func newStream(cancel context.CancelFunc) *Stream {
	return &Stream{cancel: cancel, change: make(chan struct{})}
}

// Tokens returns the tokens from the first one on, as they come. An error comes
// last, with the zero token. Leaving the loop cancels the request.
func (s *Stream) Tokens() iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) {
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
	for {
		s.mu.Lock()
		if i < len(s.tokens) {
			defer s.mu.Unlock()
			return s.tokens[i], true, nil
		}
		ended, err, change := s.ended, s.err, s.change
		s.mu.Unlock()
		if ended {
			return token, false, err
		}
		<-change
	}
}

// Result waits for the end of the answer and returns all of it. If the request was
// cancelled or failed, it is what was reached, with the error. If ctx ends first,
// the result is nil and the request runs on.
func (s *Stream) Result(ctx context.Context) (*generate.Result, error) {
	for {
		s.mu.Lock()
		if s.ended {
			defer s.mu.Unlock()
			result := s.result
			return &result, s.err
		}
		change := s.change
		s.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Cancel ends the request; its result is what was reached, with
// context.Canceled. After the end it does nothing.
func (s *Stream) Cancel() { s.cancel() }

// push adds a token and its text.
func (s *Stream) push(t generate.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, t)
	s.result.IDs = append(s.result.IDs, t.ID)
	s.result.Text += t.Text
	s.result.Finish = t.Finish
	s.changed()
}

// end closes the stream; err is nil after a token with a reason to finish.
func (s *Stream) end(finish string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	if err != nil {
		s.result.Finish = finish
	}
	s.changed()
}

func (s *Stream) changed() {
	close(s.change)
	s.change = make(chan struct{})
}
