package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// failing is a test of engines whose steps fail now and then.
type failing struct {
	*testing.T
	random *rand.Rand
	engine *Engine
	left   int // how often a step may still fail
}

// Whatever the configuration, and wherever steps fail, a request gets the tokens that it gets alone, and all memory is
// free in the end.
func TestFailingSteps(t *testing.T) {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	c, _ := testmodel.Small().Open(t)
	var hosts []*model.Host
	for range 2 {
		d, err := kompute.Open("cpu")
		require.NoError(t, err)
		h, err := model.NewHost(t.Context(), d, c, model.Options{}, model.HostOptions{Most: 1000})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, errors.Join(h.Close(), d.Close())) })
		hosts = append(hosts, h)
	}
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	var all Stats
	for seed := range uint64(12) {
		f := &failing{T: t, random: rand.New(rand.NewPCG(seed, 5))}
		stats := f.run(folder, hosts[:1+seed%2])
		all.Preempted += stats.Preempted
		all.AcceptedTokens += stats.AcceptedTokens
		all.Restarted += stats.Restarted
	}
	t.Logf("%+v", all)
	require.Positive(t, all.Preempted)
	require.Positive(t, all.AcceptedTokens)
	require.Positive(t, all.Restarted)
}

// requests returns requests of fewer than most tokens, which share beginnings.
func (f *failing) requests(most int) (all []Request) {
	r := f.random
	beginning := make([]int, r.IntN(most/2))
	for i := range beginning {
		beginning[i] = r.IntN(SmallVocabulary)
	}
	for range 20 {
		q := Request{Prompt: slices.Clone(beginning[:len(beginning)*r.IntN(3)/2]), MaxTokens: 1 + r.IntN(30)}
		for range 1 + r.IntN(10) {
			q.Prompt = append(q.Prompt, r.IntN(SmallVocabulary))
		}
		f.choosing(&q)
		all = append(all, q)
	}
	return all
}

// choosing sets how the tokens of a request are chosen.
func (f *failing) choosing(q *Request) {
	r := f.random
	token := func() int { return r.IntN(SmallVocabulary) }
	if r.IntN(2) == 0 {
		q.Sampling = sample.Params{Temperature: 0.2 + r.Float64(), TopP: 0.9, Seed: r.Uint64()}
	}
	if r.IntN(2) == 0 {
		q.EOS = []int{token(), token(), -1, SmallVocabulary, 5000, math.MaxInt32}
	}
	if r.IntN(4) == 0 {
		q.RepetitionPenalty = 1.2
	}
	if r.IntN(3) == 0 {
		q.MinTokens = r.IntN(q.MaxTokens + 1)
	}
	if r.IntN(3) == 0 {
		q.LogitBias = map[int]float64{token(): 4, token(): math.Inf(-1), token(): -1}
	}
	if r.IntN(3) == 0 {
		q.Grammar, q.GrammarAfter, q.GrammarTrigger = SmallGrammar(f), []string{"", "", "e"}[r.IntN(3)], []string{"", "", "h"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		q.Logprobs, q.TopLogprobs, q.LogprobsOf = true, r.IntN(5), []int{token(), token()}
	}
}

// run submits requests to an engine of any configuration, some of which are cancelled.
func (f *failing) run(folder *generate.Folder, hosts []*model.Host) Stats {
	r, most := f.random, 40+f.random.IntN(80)
	all := f.requests(most)
	invariant := hosts[0].Model().Device().Stats().InvariantRows > 1
	want := f.alone(all, hosts[0].Model(), folder, Config{Sequences: 1, Context: most, BatchInvariant: invariant})
	c := Config{
		Sequences: 2 + r.IntN(8), Context: most, PageTokens: 1 + r.IntN(12), CacheTokens: most + r.IntN(50),
		ChunkTokens: 1 + r.IntN(40), Draft: r.IntN(6), BatchInvariant: invariant,
	}
	var err error
	f.engine, err = NewHosted(hosts, folder.Tokenizer, c)
	require.NoError(f, err)
	if r.IntN(3) == 0 {
		f.uncapture()
	}
	f.left = r.IntN(mostRestarts + 1) // more could end a request
	var asked sync.WaitGroup
	for i, q := range all {
		if i%3 == 0 {
			q.Logits = f.sabotage
		}
		f.ask(&asked, q, want[i], i%7 == 5)
		time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
	}
	asked.Wait()
	stats := f.engine.Stats()
	require.Zero(f, stats.Running+stats.Waiting)
	require.Equal(f, stats.Pages, stats.FreePages, "%+v", c)
	require.NoError(f, f.engine.Close(f.Context()))
	return stats
}

// uncapture makes the devices such that cannot capture steps.
func (f *failing) uncapture() {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for _, r := range f.engine.replicas {
		r.steps.uncaptured = true
		for z, s := range r.steps.sizes {
			require.NoError(f, s.close())
			delete(r.steps.sizes, z)
		}
	}
}

// alone returns the answers to requests that run one after the other, whose tokens the host chooses.
func (f *failing) alone(all []Request, m model.Model, folder *generate.Folder, c Config) (out []*generate.Result) {
	e, err := New(m, folder.Tokenizer, c)
	require.NoError(f, err)
	for _, q := range all {
		q.Logits = func([]int32, []float32) error { return nil }
		s, err := e.Submit(f.Context(), q)
		require.NoError(f, err)
		got, err := s.Result(f.Context())
		require.NoError(f, err)
		out = append(out, got)
	}
	require.NoError(f, e.Close(f.Context()))
	return out
}

// sabotage is called between two steps. Now and then it makes the next ones fail where its request runs.
func (f *failing) sabotage(tokens []int32, _ []float32) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	if f.left == 0 || rand.IntN(8) > 0 {
		return nil
	}
	for _, r := range f.engine.replicas {
		if slices.ContainsFunc(r.scheduler.running, func(q *sequence) bool { return &q.tokens[0] == &tokens[0] }) {
			f.left--
			return r.steps.stream.Close()
		}
	}
	return nil
}

// ask submits a request, and checks its answer once that is there.
func (f *failing) ask(asked *sync.WaitGroup, q Request, want *generate.Result, cancelled bool) {
	ctx, cancel := context.WithCancel(f.Context())
	s, err := f.engine.Submit(ctx, q)
	require.NoError(f, err)
	if cancelled {
		time.AfterFunc(time.Duration(f.random.IntN(3000))*time.Microsecond, cancel)
	}
	asked.Go(func() {
		defer cancel()
		got, err := s.Result(f.Context())
		if cancelled && errors.Is(err, context.Canceled) {
			require.True(f, slices.Equal(want.IDs[:len(got.IDs)], got.IDs), "%v, not the beginning of %v", got.IDs, want.IDs)
			return
		}
		require.NoError(f, err)
		require.Equal(f, want.IDs, got.IDs)
		require.Equal(f, want.Text, got.Text)
		require.Equal(f, want.Finish, got.Finish)
		require.Len(f, got.Logprobs, len(want.Logprobs))
		for i, about := range got.Logprobs {
			require.InDelta(f, want.Logprobs[i].Value, about.Value, 1e-4)
			require.Len(f, about.Top, len(want.Logprobs[i].Top))
			for j, of := range about.Of {
				require.InDelta(f, want.Logprobs[i].Of[j].Value, of.Value, 1e-4)
			}
		}
	})
}
