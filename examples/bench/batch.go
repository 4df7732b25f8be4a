package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/grammar"
)

// batch is the result for a number of clients of one engine that ask at the same
// moment. Each number is the median of the repetitions, as in row.
type batch struct {
	Clients int `json:"clients"`
	Prompt  int `json:"prompt"` // tokens of each
	Tokens  int `json:"tokens"` // generated for each
	// Rate is tokens generated per second from the moment at which every client has
	// its first until one has all; Low and High are the extremes of the repetitions.
	// They and Step are absent if answers were so short that there was no such time.
	// Overall counts from the start to the last token.
	Rate    float64 `json:"tokens_per_second,omitempty"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Overall float64 `json:"overall_tokens_per_second"`
	// Step is the mean time of a device's step in that part, in which a client gets one
	// token or, with --draft, several; and Host what the host spends on a step of the whole run.
	Step float64 `json:"step_ns,omitempty"`
	Host float64 `json:"host_ns"`
	// Time to the first token, and between tokens.
	FirstP50 float64 `json:"first_token_p50_ns"`
	FirstP99 float64 `json:"first_token_p99_ns"`
	NextP50  float64 `json:"next_token_p50_ns"`
	NextP99  float64 `json:"next_token_p99_ns"`
	// With --draft: tokens guessed ahead per generated token, and the share of them that
	// was right.
	Drafted  float64 `json:"drafted_per_token,omitempty"`
	Accepted float64 `json:"accepted_share,omitempty"`
}

// readText reads the text that prompts are taken from.
func (b *bench) readText(ctx context.Context) error {
	if b.textFile == "" {
		return nil
	}
	text, err := os.ReadFile(b.textFile)
	if err == nil {
		b.text, err = b.folder.EncodeText(ctx, string(text))
	}
	if err == nil && len(b.text) < b.prompts[0] {
		err = fmt.Errorf("%d tokens, which are fewer than those of a prompt", len(b.text))
	}
	if err != nil {
		return fmt.Errorf("--text: %w", err)
	}
	return nil
}

// readSchema reads the JSON schema that answers follow.
func (b *bench) readSchema() error {
	if b.schemaFile == "" {
		return nil
	}
	schema, err := os.ReadFile(b.schemaFile)
	if err == nil {
		b.grammar, err = grammar.Compile(schema, grammar.NewVocabulary(b.folder.Tokenizer, b.folder.Limits().Vocabulary), grammar.Options{})
	}
	if err != nil {
		return fmt.Errorf("--schema: %w", err)
	}
	return nil
}

// promptOf returns the prompt of a client: random tokens, or a different part of the text
// for each client.
func (b *bench) promptOf(client int) []int {
	n := b.prompts[0]
	if b.text == nil {
		return b.tokens(n)
	}
	from := client * n % (len(b.text) - n + 1)
	return b.text[from : from+n]
}

// runBatches measures every number of clients.
func (b *bench) runBatches(ctx context.Context) error {
	for _, clients := range b.batch {
		b.shown.step(counted(clients, "client"))
		r, err := b.runBatch(ctx, clients)
		if r != nil {
			b.results.Batches = append(b.results.Batches, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", counted(clients, "client"), err)
		}
	}
	return nil
}

// runBatch makes an engine for a number of clients, which ask once to warm up
// and then reps times. If a profile cannot be made of it, it returns what was measured as well.
func (b *bench) runBatch(ctx context.Context, clients int) (out *batch, err error) {
	prompt, tokens := b.prompts[0], b.gens[0]
	before := b.model.Device().Stats().LiveBytes
	each := (prompt+tokens)/64*64 + 64
	most := max(prompt+tokens, b.context)
	e, err := engine.NewHosted(b.hosts, b.folder.Tokenizer, engine.Config{
		Sequences: clients * (1 + b.draft), Context: most, CacheTokens: max(each*clients, most), Queue: clients,
		Draft: b.draft, ChunkTokens: b.chunk, BatchInvariant: b.batchInvariant,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	b.results.Memory.Cache = max(b.results.Memory.Cache, b.model.Device().Stats().LiveBytes-before)
	var runs []*batch
	for i := range b.reps + 1 {
		r, err := b.ask(ctx, e, clients)
		if err != nil {
			return nil, err
		}
		b.shown.ran()
		if i > 0 {
			runs = append(runs, r)
		}
	}
	out = medians(runs)
	out.Prompt, out.Tokens = prompt, tokens
	return out, b.lookAtStep(ctx, e, clients)
}

// lookAtStep measures the parts of the largest step that only generates, usually the
// one in which every client gets a token, and of the largest one with prompts in it.
func (b *bench) lookAtStep(ctx context.Context, e *engine.Engine, clients int) error {
	if b.profile == 0 {
		return nil
	}
	all, err := e.Profile(ctx, b.profile)
	if errors.Is(err, kompute.ErrUnsupported) {
		b.results.NoProfile = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	for _, prompts := range []bool{false, true} {
		for _, p := range slices.Backward(all) {
			if (p.Rows != p.Chosen) == prompts {
				out := &profile{Clients: clients, Rows: p.Rows, Tokens: b.profile}
				out.add(p.RegionProfile)
				if p.Choice != nil {
					out.add(p.Choice)
				}
				b.results.Profiles = append(b.results.Profiles, out)
				break
			}
		}
	}
	return nil
}

// ask has clients ask at once, and waits for all answers.
func (b *bench) ask(ctx context.Context, e *engine.Engine, clients int) (*batch, error) {
	requests := make([]engine.Request, clients)
	for i := range requests {
		requests[i] = b.requestOf(i)
	}
	times := make([][]time.Time, clients)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	w := newStepWatch(e, clients)
	start := time.Now()
	for i := range requests {
		wg.Go(func() { times[i], errs[i] = tokenTimes(ctx, e, requests[i], w) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	before, after := w.before, e.Stats()
	out := summarize(start, times, w.steps())
	out.Host = float64(after.HostTime-before.HostTime) / float64(max(after.Steps-before.Steps, 1))
	if drafted := after.DraftedTokens - before.DraftedTokens; drafted > 0 {
		out.Drafted = float64(drafted) / float64(after.GeneratedTokens-before.GeneratedTokens)
		out.Accepted = float64(after.AcceptedTokens-before.AcceptedTokens) / float64(drafted)
	}
	return out, nil
}

// requestOf returns the request of a client.
func (b *bench) requestOf(client int) engine.Request {
	r := engine.Request{Prompt: b.promptOf(client), MaxTokens: b.gens[0], Sampling: b.sampling}
	if b.special == 0 || client < b.special {
		r.RepetitionPenalty, r.PresencePenalty, r.FrequencyPenalty = b.repetition, b.presence, b.frequency
		r.Logprobs, r.Grammar = b.logprobs, b.grammar
	}
	return r
}

// tokenTimes returns when each token of an answer arrived.
func tokenTimes(ctx context.Context, e *engine.Engine, r engine.Request, w *stepWatch) ([]time.Time, error) {
	out := make([]time.Time, 0, r.MaxTokens)
	s, err := e.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	for token, err := range s.Tokens() {
		if err != nil {
			return nil, err
		}
		out = append(out, time.Now())
		w.note(len(out) == 1, token.Finish != "")
	}
	return out, nil
}

func printBatches(w io.Writer, all []*batch) error {
	t := table(w)
	fmt.Fprintln(t, "clients\tprompt\ttokens\ttokens/s\tlow\thigh\toverall\tstep ms\thost µs\tfirst token p50 ms\tp99\tnext token p50 ms\tp99\t")
	ms := func(ns float64) float64 { return ns / 1e6 }
	for _, r := range all {
		together := []string{"-", "-", "-", "-"} // where all clients generate
		if r.Rate > 0 {
			together = strings.Fields(fmt.Sprintf("%.1f %.1f %.1f %.3f", r.Rate, r.Low, r.High, ms(r.Step)))
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%.1f\t%s\t%s\t%.1f\t%.1f\t%.3f\t%.3f\t\n", r.Clients, r.Prompt, r.Tokens, strings.Join(together[:3], "\t"),
			r.Overall, together[3], micros(r.Host), ms(r.FirstP50), ms(r.FirstP99), ms(r.NextP50), ms(r.NextP99))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range all {
		if r.Drafted > 0 {
			fmt.Fprintf(w, "%s: %.2f tokens guessed ahead for each that was generated, %.0f %% of them right\n", counted(r.Clients, "client"), r.Drafted, 100*r.Accepted)
		}
	}
	return nil
}
