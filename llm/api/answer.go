package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// generation is a valid request, ready to run.
type generation struct {
	id        string
	began     time.Time
	model     string
	chat      bool
	requests  []engine.Request // one for each prompt
	choices   int              // of each of them
	prompt    int              // tokens of the prompts
	thinking  bool             // the prompt ends within thoughts
	continues bool             // the prompt ends within the answer, or its thoughts
	tools     bool
	bare      map[string]bool // the tools that may be called without tags; nil for none
	oneCall   bool            // end after the first tool call
	stream    bool
	usage     bool // in the stream
	logprobs  bool
	top       int // number of likeliest tokens for each token
	tokenizer *tokenizer.Tokenizer
	grammar   *grammar.Grammar // nil for none
	trigger   string           // the text that the grammar follows; "": it holds for the whole answer
	out       sink             // nil for that of completions
}

// chatCompletions is POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request, m *loaded, q *chatRequest) error {
	g, ids, err := s.chat(r.Context(), m, q)
	if err != nil {
		return err
	}
	return s.run(w, r, m, g, &q.common, [][]int{ids})
}

// encode returns the tokens of the prompt of a valid request.
func (q *chatRequest) encode(ctx context.Context, m *loaded, noThink bool) ([]int, error) {
	if err := q.check(m); err != nil {
		return nil, err
	}
	if err := m.checkSize(q.size()); err != nil {
		return nil, err
	}
	if err := q.checkContinued(); err != nil {
		return nil, err
	}
	messages, err := q.conversation()
	if err != nil {
		return nil, err
	}
	variables, err := q.variables(m, noThink)
	if err != nil {
		return nil, err
	}
	tools, err := q.shown(m)
	if err != nil {
		return nil, err
	}
	ids, err := m.folder.EncodeChatWith(ctx, messages, chat.Options{Tools: tools, Variables: variables, ContinueLast: q.ContinueLast})
	if errors.Is(err, generate.ErrPrompt) {
		err = bad("messages", "%v", err)
	}
	return ids, err
}

// chat returns the generation that answers a chat, and the tokens of its prompt.
func (s *Server) chat(ctx context.Context, m *loaded, q *chatRequest) (*generation, []int, error) {
	ids, err := q.encode(ctx, m, s.options.NoThink)
	if err != nil {
		return nil, nil, err
	}
	g := &generation{
		id: "chatcmpl-" + rand.Text(), began: noteOf(ctx).start, chat: true, thinking: m.thinkingFirst(ids) || q.continuesThoughts(),
		continues: q.ContinueLast, tools: len(q.Tools) > 0, oneCall: q.ParallelToolCalls != nil && !*q.ParallelToolCalls,
		logprobs: q.Logprobs, top: q.TopLogprobs,
	}
	if len(q.Tools) > 0 && !g.continues && !m.folder.Template.Writes(callTag) {
		tools, err := q.shown(m)
		if err != nil {
			return nil, nil, err
		}
		g.bare = toolNames(tools)
	}
	if ids, err = g.constrain(ctx, m, q, ids); err != nil {
		return nil, nil, err
	}
	if g.continues && g.grammar != nil && g.trigger == "" {
		return nil, nil, unsupported("continue_final_message", "the required form is that of a whole answer")
	}
	return g, ids, m.checkLength("messages", ids)
}

// size counts the bytes that the chat template gets.
func (q *chatRequest) size() (size int) {
	for _, message := range q.Messages {
		size += messageSize + len(message.Content) + len(message.Reasoning) + len(message.Thoughts)
		size += len(message.Name) + len(message.ToolCallID)
		for _, c := range message.ToolCalls {
			size += messageSize + len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
		}
	}
	for _, tool := range q.Tools {
		size += len(tool)
	}
	for name, value := range q.TemplateArguments {
		size += len(name) + len(value)
	}
	return size
}

// completions is POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, m *loaded, q *textRequest) error {
	if err := q.check(m); err != nil {
		return err
	}
	prompts, err := m.encode(r.Context(), "prompt", q.Prompt, m.folder.EncodeText)
	if err != nil {
		return err
	}
	if q.MaxTokens == nil {
		q.MaxTokens = new(16) // OpenAI's default
	}
	g := &generation{
		id: "cmpl-" + rand.Text(), began: noteOf(r.Context()).start,
		logprobs: q.Logprobs != nil, top: first(q.Logprobs, nil, 0),
	}
	if g.grammar, err = q.form.grammar(r.Context(), m, nil); err != nil {
		return err
	}
	return s.run(w, r, m, g, &q.common, prompts)
}

// prepare makes the engine's requests, one for each prompt.
func (s *Server) prepare(g *generation, m *loaded, c *common, prompts [][]int) error {
	n := first(c.N, nil, 1)
	switch queue, places := m.queue, m.engine.Stats().Places; {
	case n > queue:
		return bad("n", "%d are more than the %d that may wait here", n, queue)
	case n*len(prompts) > places+queue: // for which no other time would be better
		return bad("n", "%d for each of %d prompts are more than the %d that may run or wait here", n, len(prompts), places+queue)
	}
	most := m.context
	if s.options.MaxTokens > 0 {
		most = s.options.MaxTokens
	}
	g.model, g.stream, g.usage, g.choices = m.name, c.Stream, c.StreamOptions.IncludeUsage, n
	g.tokenizer = m.folder.Tokenizer
	sampling, ends := m.sampling(c), slices.Concat(m.folder.EOS(), c.StopTokens)
	if c.IgnoreEOS {
		ends = c.StopTokens
	}
	for _, ids := range prompts {
		g.prompt += len(ids)
		limit := min(first(c.MaxTokens, nil, most), most)
		g.requests = append(g.requests, engine.Request{
			Prompt: ids, MaxTokens: limit, Sampling: sampling, EOS: ends, Stop: c.Stop, MinTokens: min(c.MinTokens, limit),
			PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty, RepetitionPenalty: m.repetitionPenalty(c),
			LogitBias: c.LogitBias, Logprobs: g.logprobs, TopLogprobs: g.top,
		})
		g.keep(&g.requests[len(g.requests)-1])
		sampling.Seed += uint64(n)
	}
	return nil
}

// run answers a request.
func (s *Server) run(w http.ResponseWriter, r *http.Request, m *loaded, g *generation, c *common, prompts [][]int) error {
	if err := s.prepare(g, m, c, prompts); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var streams []stream
	for _, q := range g.requests {
		choices, err := m.submit(ctx, q, g.choices)
		if err != nil {
			return err
		}
		streams = append(streams, choices...)
	}
	out := g.out
	switch {
	case out != nil:
	case !g.stream:
		out = newWhole(len(streams))
	default:
		places := make([]*textPlace, len(streams))
		for i := range places {
			places[i] = g.newTextPlace()
		}
		out = &events{eventWriter: eventWriter{w: w}, generation: g, places: places}
	}
	total, err := s.followAll(ctx, cancel, g, streams, out)
	for i := 0; i < len(streams); i += g.choices { // further choices share the prompt of the first one
		total.cached += streams[i].Cached()
	}
	n := noteOf(r.Context())
	n.prompt, n.answer, n.finish, n.firstToken = g.prompt, total.tokens, total.finish, total.first
	if err != nil && r.Context().Err() != nil {
		err = asAPIError(r.Context(), err) // a stream ends with this error
	}
	if err == nil || g.stream {
		err = cmp.Or(err, out.end(w, g, total, err))
	}
	return err
}

// counts describes the result of one choice, or of all.
type counts struct {
	tokens, reasoning int
	cached            int           // tokens of the prompts that were not computed
	first             time.Duration // until the first token
	finish            string
}

// followAll passes on the output of all choices. The first error ends all of them.
func (s *Server) followAll(ctx context.Context, cancel func(), g *generation, streams []stream, out sink) (total counts, first error) {
	type result struct {
		counts
		err error
	}
	for i := range streams {
		// The role of each choice comes before any text, in order: OpenAI's client for Python
		// appends a choice to its list when it sees the first delta.
		if err := out.delta(delta{choice: i}); err != nil {
			return total, err
		}
	}
	results := make(chan result)
	for i := range streams {
		go func() {
			var one result
			defer func() {
				if v := recover(); v != nil {
					s.options.Log.Error("panic", "id", noteOf(ctx).id, "value", v, "stack", string(debug.Stack()))
					one.err = errPanic
				}
				results <- one
			}()
			one.counts, one.err = s.follow(ctx, g, i, streams[i], out)
		}()
	}
	for range streams {
		one := <-results
		if one.err != nil && first == nil {
			first = one.err
			cancel()
		}
		total.tokens += one.tokens
		total.reasoning += one.reasoning
		total.finish = one.finish
		if total.first == 0 || one.counts.first > 0 && one.counts.first < total.first {
			total.first = one.counts.first
		}
	}
	return total, first
}

// delta is a part of one choice's output.
type delta struct {
	choice int
	part
	finish   string // with the last one
	stop     string // the stop string that ended it, with the last one
	logprobs []generate.Logprob
}

// sink receives the output. Deltas come from several goroutines. The error of end is that of
// writing, not the one that it is given.
type sink interface {
	delta(delta) error
	end(http.ResponseWriter, *generation, counts, error) error
}

// follow passes on the output of one choice, until ctx ends: a slow reader does not get the
// tokens that are already there.
func (s *Server) follow(ctx context.Context, g *generation, i int, tokens stream, out sink) (c counts, err error) {
	var logprobs []generate.Logprob // of text that is held back
	stop := ""
	text := newParts(g.thinking, g.tools)
	text.bare = g.bare
	if !g.chat || g.continues {
		text.at = inAnswer
		if g.thinking {
			text.at = inThought // white space belongs to what is continued
		}
	}
	for token, err := range tokens.Tokens() {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return c, err
		}
		c.tokens++
		if c.tokens == 1 {
			_, first, _ := tokens.Times()
			c.first = first.Sub(g.began)
			s.options.Metrics.FirstToken(c.first)
		}
		if text.thinking() {
			c.reasoning++
		}
		if token.Logprob != nil {
			logprobs = append(logprobs, *token.Logprob)
		}
		c.finish, stop = token.Finish, token.Stop
		for _, p := range text.push(token.Text, token.Finish != "") {
			if err := out.delta(delta{choice: i, part: p, logprobs: logprobs}); err != nil {
				return c, err
			}
			logprobs = nil
			if g.oneCall && p.call != nil {
				break // text that was held back, as a possible stop, may have more calls
			}
		}
		if g.oneCall && text.calls > 0 {
			c.finish = generate.FinishStop
			break
		}
	}
	if n, first, last := tokens.Times(); n > 1 {
		s.options.Metrics.TokenTime(last.Sub(first) / time.Duration(n-1))
	}
	if text.calls > 0 && c.finish == generate.FinishStop {
		c.finish = "tool_calls"
	}
	return c, out.delta(delta{choice: i, finish: c.finish, stop: stop, logprobs: logprobs})
}
