package generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Session generates text with one model, on a stream and a cache of its own.
// The cache stays from call to call, so a conversation pays for each of its
// tokens once. A session serves one goroutine at a time.
type Session struct {
	model  model.Model
	words  *tokenizer.Tokenizer
	stream *kompute.Stream
	cache  model.Cache
	seen   []int // the tokens in the cache
	loop   *loop // nil until it is needed
	// why the loop cannot be captured on this device; nil: it can, so far
	uncaptured error
}

// NewSession returns a session with an empty cache for capacity tokens, which
// grows when more are needed. words decodes what is generated.
func NewSession(m model.Model, words *tokenizer.Tokenizer, capacity int) (*Session, error) {
	s, err := m.Device().NewStream()
	if err != nil {
		return nil, err
	}
	cache, err := m.NewCache(min(max(capacity, 1), m.Config().MaxPositions))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Session{model: m, words: words, stream: s, cache: cache}, nil
}

// Stream returns the session's stream, whose statistics tell what it did.
func (s *Session) Stream() *kompute.Stream { return s.stream }

// Region returns the decode step that generations replay; nil if none has needed
// it yet, or this device cannot have one. It is closed with the session, when the
// cache grows, and when a generation samples after a greedy one, or the other way.
func (s *Session) Region() *kompute.Region {
	if s.loop == nil {
		return nil
	}
	return s.loop.region
}

// Close frees cache and stream, once the device is done with them.
func (s *Session) Close() error {
	return errors.Join(s.closeLoop(), s.cache.Close(), s.stream.Close())
}

// resume keeps of the cache what the new prompt begins with, and returns the
// tokens still to be fed: at least the last one, whose logits are needed.
func (s *Session) resume(prompt []int) ([]int, error) {
	same := 0
	for same < min(len(s.seen), len(prompt)-1) && s.seen[same] == prompt[same] {
		same++
	}
	if err := s.cache.Truncate(same); err != nil {
		return nil, err
	}
	s.seen = s.seen[:same]
	return prompt[same:], nil
}

// upload puts token ids on the device, as [1, n].
func (s *Session) upload(ids []int) (*kompute.Tensor[uint32], error) {
	narrow := make([]uint32, len(ids))
	for i, id := range ids {
		narrow[i] = uint32(id)
	}
	return kompute.New(s.model.Device(), narrow, 1, len(ids))
}

// prefill feeds all tokens but those of the last piece, a piece at a time, and
// returns the last piece. It waits for each piece, so that what is in flight
// stays small and progress is real.
func (s *Session) prefill(ctx context.Context, ids []int, o *Options) ([]int, error) {
	total := len(ids)
	for len(ids) > o.PrefillStep {
		piece := ids[:o.PrefillStep]
		tokens, err := s.upload(piece)
		if err != nil {
			return nil, err
		}
		s.model.Forward(s.stream, model.Pass{Tokens: tokens, Cache: s.cache, Rows: model.NoRows})
		if err := errors.Join(s.stream.Synchronize(ctx), tokens.Close()); err != nil {
			return nil, s.failed(err)
		}
		s.seen = append(s.seen, piece...)
		ids = ids[len(piece):]
		if o.OnPrefill != nil {
			o.OnPrefill(total-len(ids), total)
		}
	}
	return ids, nil
}

// failed brings cache and seen back into step after an error: what a pass has
// enqueued counts, unless its tokens were not noted.
func (s *Session) failed(err error) error {
	if s.cache.Len() > len(s.seen) {
		err = errors.Join(err, s.cache.Truncate(len(s.seen)))
	}
	return err
}

// checkPrompt refuses prompts that cannot be fed.
func checkPrompt(c *checkpoint.Config, prompt []int) error {
	switch {
	case len(prompt) == 0:
		return &PromptError{"empty"}
	case len(prompt) > c.MaxPositions:
		return &PromptError{fmt.Sprintf("%d tokens exceed the model's context of %d", len(prompt), c.MaxPositions)}
	}
	for i, id := range prompt {
		if id < 0 || id >= c.VocabSize {
			return &PromptError{fmt.Sprintf("token %d, at %d, is outside the model's vocabulary of %d", id, i, c.VocabSize)}
		}
	}
	return nil
}
