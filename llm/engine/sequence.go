package engine

import (
	"context"
	"sync/atomic"

	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// sequence is a request that was accepted.
type sequence struct {
	request *Request
	stream  *Stream
	out     *outbox // passes tokens to stream
	ctx     context.Context
	answer  *generate.Answer // nil: there are no tokens to generate
	guide   *guide           // nil: all tokens may come at any time
	chooser *chooser         // nil: the device chooses
	// What the device does to logits before it chooses: it applies penalties, unless they are nil,
	// and adds Request.LogitBias.
	penalties *penalties
	biased    bool
	lookup    *lookup    // nil: no drafts
	embed     *embedding // nil: tokens are wanted
	// How the device chooses, except for the number of the draw.
	params [opdef.SampleParamsSize]uint32
	limit  int // the most tokens to generate
	ended  atomic.Bool
	// How often steps with it have failed since it got its last token, and how many
	// tokens it had then.
	failures, failedAt int

	tokens []int32   // the prompt, and the generated tokens that the host knows
	first  *sequence // of the answers to one prompt; nil: there is one answer
	prompt int       // how many of them are the prompt's
	// How many more the steps in flight choose, where the device keeps the last of
	// them, and whose steps they are.
	pending, at int
	flying      *scheduler
	guessed     bool // the last of them has guesses, so only its end will tell how many tokens it chooses
	// While it runs:
	on        *scheduler // where it runs; nil: it waits, or has ended
	row       int        // differs from those of the others that run there; less than Config.Sequences
	fed       int        // tokens whose keys and values are in pages, once the steps in flight are done
	pages     []*page    // of those tokens, and of the next ones
	published int        // how many of the pages were offered to others
	hidden    bool       // the last of them cannot be found, since another page with its tokens can, and so will none after it
	admission uint64     // counts when it was let run: its pages only grow until the next one
	turn      uint64     // the last plan that fed it
	begun     bool       // a piece of its prompt has been fed
}

// newSequence returns the sequence of a prompt, which ends with ctx.
func (e *Engine) newSequence(ctx context.Context, prompt []int) *sequence {
	own, cancel := context.WithCancel(ctx)
	q := &sequence{ctx: own, stream: newStream(cancel), out: e.outbox, prompt: len(prompt), tokens: make([]int32, len(prompt))}
	for i, id := range prompt {
		q.tokens[i] = int32(id)
	}
	return q
}

func (s *sequence) generated() int { return len(s.tokens) - s.prompt }

// asksAs reports whether both are answers to one prompt that have no tokens yet.
func (s *sequence) asksAs(other *sequence) bool {
	return s.first != nil && s.first == other.first && s.generated() == 0 && other.generated() == 0
}

// waiting returns how many tokens are still to be fed. The last one that may be
// generated never is.
func (s *sequence) waiting() int {
	if s.generated()+s.pending >= s.limit {
		return 0
	}
	return len(s.tokens) + s.pending - s.fed
}

// shares reports whether the sequence can use existing pages, which it cannot if it
// needs the states of their tokens.
func (s *sequence) shares() bool { return s.embed == nil || s.embed.pooling == PoolLast }

// adjusted reports whether the device changes logits of the sequence, which then has a row of texts.
func (s *sequence) adjusted() bool { return s.penalties != nil || s.biased }

// needsLogits reports whether the host needs the logits after its rows.
func (s *sequence) needsLogits() bool { return s.chooser != nil || s.request.Logprobs }

// undecided reports whether the host must see the result of a step in flight
// before it can continue the sequence, or before it can guess what follows. Whether there
// is room for guesses now does not say whether there was when that step was planned:
// another replica may have let a request run here in the meantime.
func (s *sequence) undecided() bool {
	return s.pending > 0 && (s.guessed || s.chooser != nil || s.lookup.drafts() && s.on != nil && s.on.draftRoom() > 0)
}

// accept passes a chosen token on. It reports whether the answer ends with it.
func (s *sequence) accept(id int, about *generate.Logprob) bool {
	s.tokens = append(s.tokens, int32(id))
	if s.lookup != nil {
		s.lookup.accept(s.tokens)
	}
	add := s.answer.Add
	if s.guide.accept(id) {
		add = s.answer.AddLast
	}
	token := add(id)
	token.Logprob = about
	s.out.add(delivery{stream: s.stream, token: token})
	if token.Finish != "" {
		s.end(token.Finish, "", nil)
	}
	return token.Finish != ""
}

// abort ends the answer with an error, and includes text that was held back.
func (s *sequence) abort(finish string, err error) {
	rest := ""
	if s.answer != nil {
		rest = s.answer.Rest()
	}
	s.end(finish, rest, err)
}

// end ends the stream after everything that was passed on before.
func (s *sequence) end(finish, rest string, err error) {
	s.out.add(delivery{stream: s.stream, ends: true, finish: finish, rest: rest, err: err})
}
