package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/model"
)

// The ways in which tokens are processed.
const (
	modePrompt = "prompt" // many at once
	modeRegion = "region" // one by one, by replaying a region
	modeEager  = "eager"  // one by one, op by op
)

// test is one measurement.
type test struct {
	Name   string `json:"name"` // pp512, tg128, as llama-bench names them
	Mode   string `json:"mode"`
	Tokens int    `json:"tokens"`
	Depth  int    `json:"depth"` // tokens already in the cache
}

// row is the result of a test.
type row struct {
	test
	// Tokens per second: the median of the repetitions, which is the mean of the middle
	// two of an even number, and their extremes.
	Median float64 `json:"tokens_per_second"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Work   work    `json:"work"`
}

// work counts the work for one token, or for a whole prompt.
type work struct {
	Per              string  `json:"per"` // token or prompt
	Dispatches       float64 `json:"dispatches"`
	Barriers         float64 `json:"barriers"`
	Submits          float64 `json:"submits"`
	DescriptorWrites float64 `json:"descriptor_writes"`
	RecordedCommands float64 `json:"recorded_commands"`
	// Host time to record and submit, and all host time to enqueue, which is
	// known for tokens only.
	RecordNanos  float64 `json:"host_record_submit_ns"`
	EnqueueNanos float64 `json:"host_enqueue_ns,omitempty"`
}

// bench runs tests on one model.
type bench struct {
	*options
	folder    *generate.Folder
	hosts     []*model.Host     // one for each device
	model     model.Model       // of the first
	prompting *generate.Session // of the test that is running, if it is one of prompts
	text      []int             // the text that prompts are taken from; nil: random tokens
	grammar   *grammar.Grammar  // of --schema
	rng       *rand.Rand
	shown     *progress
	results   *results
}

func newBench(o *options, f *generate.Folder, hosts []*model.Host, stderr io.Writer) *bench {
	m := hosts[0].Model()
	info := m.Device().Info()
	runs := len(o.tests())*(o.reps+1)*max(len(o.threads), 1) + len(o.profiled()) // profiles of prompts are short
	if len(o.batch) > 0 {
		runs = len(o.batch) * (o.reps + 1)
	}
	return &bench{options: o, folder: f, hosts: hosts, model: m, shown: newProgress(stderr, runs), rng: rand.New(rand.NewPCG(o.seed, 1)), results: &results{
		Model: f.Name(), Device: info.Name, Backend: info.Backend, Driver: info.Driver, Repetitions: o.reps,
		DisabledFusion: os.Getenv("KOMPUTE_GO_DISABLE_FUSION"),
		Memory:         memory{Weights: m.Bytes()},
	}}
}

// runAll runs what the options ask for. If an error ends that, it returns what was measured before as well, if anything.
func (b *bench) runAll(ctx context.Context) (*results, error) {
	defer b.shown.close()
	run := b.runTests
	switch {
	case len(b.threads) > 0:
		run = b.runThreads
	case len(b.batch) > 0:
		run = b.runBatches
	}
	err := run(ctx)
	if err != nil && !b.results.some() {
		return nil, err
	}
	b.results.ending = endingOf(err)
	st := b.model.Device().Stats()
	b.results.Memory.Peak, b.results.Memory.Reserved = st.PeakBytes, st.ReservedBytes
	return b.results, err
}

// runTests runs every test, and then profiles each prompt, and a token at each depth.
func (b *bench) runTests(ctx context.Context) error {
	tests := b.tests()
	for i, t := range tests {
		b.shown.step(fmt.Sprintf("test %d of %d: %s, %s", i+1, len(tests), t.Name, t.Mode))
		r, err := b.run(ctx, t)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", t.Name, t.Mode, err)
		}
		b.results.Tests = append(b.results.Tests, r)
	}
	for _, t := range tests {
		if t.Mode != modePrompt || b.profile == 0 {
			continue
		}
		b.shown.step("profile of " + t.Name)
		if err := b.lookAtPrompt(ctx, t); err != nil {
			return fmt.Errorf("profile of %s: %w", t.Name, err)
		}
	}
	for _, depth := range b.profiled() {
		b.shown.step(fmt.Sprintf("profile at depth %d", depth))
		if err := b.look(ctx, depth); err != nil {
			return fmt.Errorf("profile at depth %d: %w", depth, err)
		}
		b.shown.ran()
	}
	return nil
}

// run measures a test: repetitions to warm up, then reps that count.
func (b *bench) run(ctx context.Context, t test) (r row, err error) {
	r = row{test: t}
	if t.Mode == modePrompt {
		if b.prompting, err = b.session(t.Depth + t.Tokens + 1); err != nil {
			return r, err
		}
		defer closeInto(&err, b.prompting)
	}
	if err := b.warmUp(ctx, t); err != nil {
		return r, err
	}
	var rates []float64
	for range b.reps {
		rate, err := b.once(ctx, t, &r.Work)
		if err != nil {
			return r, err
		}
		b.shown.ran()
		rates = append(rates, rate)
	}
	r.Low, r.Median, r.High = slices.Min(rates), median(rates), slices.Max(rates)
	return r, nil
}

// median returns the middle one of numbers in their order, or the mean of the middle two.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// warmUp runs the test once, a prompt twice, since that captures it, and then for as
// long as it takes a GPU to raise its clocks again, which drop while pipelines are
// compiled.
func (b *bench) warmUp(ctx context.Context, t test) error {
	const enough = 300 * time.Millisecond
	var ignored work
	_, err := b.once(ctx, t, &ignored)
	if err == nil && t.Mode == modePrompt && !b.eager {
		_, err = b.once(ctx, t, &ignored)
	}
	b.shown.ran()
	if d := b.model.Device(); d.Backend() == "cpu" || d.Info().Type == "cpu" {
		return err
	}
	for start := time.Now(); err == nil && time.Since(start) < enough; {
		_, err = b.once(ctx, t, &ignored)
	}
	return err
}

// once fills the cache to the test's depth and then runs the test. It returns tokens
// per second; fewer tokens than the test's are an error.
func (b *bench) once(ctx context.Context, t test, w *work) (rate float64, err error) {
	if t.Mode == modePrompt {
		return b.prompt(ctx, b.prompting, t, w)
	}
	s, err := b.session(t.Depth + t.Tokens + 1)
	if err != nil {
		return 0, err
	}
	defer closeInto(&err, s)
	_, err = s.Generate(ctx, b.tokens(max(t.Depth, 1)), generate.Options{
		Eager: t.Mode == modeEager, MaxTokens: t.Tokens + 1, // the first comes with the prompt
		Sampling: b.sampling,
	})
	if err != nil {
		return 0, err
	}
	if t.Mode == modeRegion && s.Region() == nil {
		return 0, errors.New("this device cannot capture the decode step; see --eager")
	}
	*w = workOf(s.Stats().Work)
	return s.Stats().DecodeRate(), ctx.Err()
}

// session makes a session and records the size of its cache.
func (b *bench) session(capacity int) (*generate.Session, error) {
	before := b.model.Device().Stats().LiveBytes
	s, err := generate.NewSession(b.model, b.folder.Tokenizer, capacity)
	if err == nil {
		b.results.Memory.Cache = max(b.results.Memory.Cache, b.model.Device().Stats().LiveBytes-before)
	}
	return s, err
}

// errRestarted says that the session has begun again, with smaller pieces of the prompt.
var errRestarted = fmt.Errorf("%w for the prompt as it was to be measured", kompute.ErrOutOfMemory)

// prompt measures one prompt, in a session that may have read others of that size.
func (b *bench) prompt(ctx context.Context, s *generate.Session, t test, w *work) (float64, error) {
	prompt, o := b.tokens(t.Depth), generate.Options{MaxTokens: 1, Eager: b.eager}
	if t.Depth > 0 {
		if _, err := s.Generate(ctx, prompt, o); err != nil {
			return 0, err
		}
	}
	stream := s.Stream()
	before := stream.Stats()
	if _, err := s.Generate(ctx, append(prompt, b.tokens(t.Tokens)...), o); err != nil {
		return 0, err
	}
	if s.Stream() != stream {
		return 0, errRestarted
	}
	*w = promptWork(before, stream.Stats())
	return s.Stats().PromptRate(), ctx.Err()
}

// tokens returns n random tokens.
func (b *bench) tokens(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = b.rng.IntN(b.model.Limits().Vocabulary)
	}
	return ids
}

func workOf(w generate.Work) work {
	p := w.PerToken()
	return work{
		Per: "token", Dispatches: p.Dispatches, Barriers: p.Barriers, Submits: p.Submits,
		DescriptorWrites: p.DescriptorWrites, RecordedCommands: p.RecordedCommands,
		RecordNanos:  float64(w.HostNanos) / max(float64(w.Replays), float64(w.Tokens), 1),
		EnqueueNanos: p.HostEnqueueNanos,
	}
}

func promptWork(before, after kompute.StreamStats) work {
	host := after.RecordTime - before.RecordTime + after.SubmitTime - before.SubmitTime
	return work{
		Per: "prompt", Dispatches: float64(after.Dispatches - before.Dispatches),
		Barriers: float64(after.Barriers - before.Barriers), Submits: float64(after.Submits - before.Submits),
		DescriptorWrites: float64(after.DescriptorWrites - before.DescriptorWrites),
		RecordedCommands: float64(after.RecordedCommands - before.RecordedCommands),
		RecordNanos:      float64(host / time.Nanosecond),
	}
}
