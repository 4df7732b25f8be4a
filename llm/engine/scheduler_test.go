package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A sequence with a guess in flight is not fed before its step has ended, even if another
// replica lets a request run here that takes the room for guesses.
func TestGuessesAreAwaited(t *testing.T) {
	c := &Config{Sequences: 2, ChunkTokens: 16, PageTokens: 64, CacheTokens: 1024, Draft: 4}
	w := &queue{wake: func() {}}
	here, other := newScheduler(c, w), newScheduler(c, w)
	ask := func() *sequence { return &sequence{request: &Request{}, tokens: []int32{1}, prompt: 1, limit: 100} }
	q := ask()
	q.lookup = &lookup{}
	for i := range int32(12) {
		q.tokens = append(q.tokens, i%3)
		q.lookup.accept(q.tokens)
	}
	here.admit(q)
	q.fed, q.pages = len(q.tokens)-1, here.pages.share(nil)
	require.True(t, here.reserve(q, len(q.tokens)))
	other.admit(ask())
	other.admit(ask())

	var first, second, others pendingStep
	require.True(t, here.plan(&first))
	require.Len(t, first.pieces[0].draft, 1)
	w.last(ask())
	require.True(t, other.plan(&others))
	require.Empty(t, w.waiting)
	require.Zero(t, here.draftRoom())
	require.False(t, here.plan(&second))
	q.pending -= first.pieces[0].chosen // as when the step has ended
	require.True(t, here.plan(&second))
}

// However many tokens sequences wait for, a step has at most mostRows.
func TestRowsOfAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{
			Sequences: rapid.IntRange(1, 12).Draw(t, "sequences"), ChunkTokens: rapid.IntRange(1, 40).Draw(t, "chunk"),
			PageTokens: 4, CacheTokens: 1024, Draft: rapid.IntRange(0, 4).Draw(t, "draft"),
		}
		s := newScheduler(c, &queue{wake: func() {}})
		for range rapid.IntRange(1, c.Sequences).Draw(t, "running") {
			tokens := make([]int32, rapid.IntRange(1, 50).Draw(t, "tokens"))
			q := &sequence{request: &Request{}, tokens: tokens, prompt: len(tokens), limit: 100, lookup: &lookup{}}
			q.lookup.accept(tokens)
			s.admit(q)
			q.fed, q.pages = rapid.IntRange(0, len(tokens)-1).Draw(t, "fed"), s.pages.share(nil)
			if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 && len(s.running) > 1 {
				gone := s.running[rapid.IntRange(0, len(s.running)-1).Draw(t, "who")]
				s.leave(gone)
				s.admit(gone)
				gone.fed, gone.pages = 0, s.pages.share(nil)
			}
		}
		taken := map[int]bool{}
		for _, q := range s.running {
			require.False(t, taken[q.row], "another sequence has row %d", q.row)
			require.Less(t, q.row, c.Sequences)
			taken[q.row] = true
		}
		var f pendingStep
		require.True(t, s.plan(&f))
		rows := 0
		for _, p := range f.pieces {
			rows += p.count
		}
		require.LessOrEqual(t, rows, c.mostRows())
	})
}

// A request waits for pages with its beginning only while there will be any: the pages of a
// sequence that shares none, such as an embedding of the mean, are not found once one of them
// has the tokens of another page.
func TestNobodyWaitsForPagesThatStayHidden(t *testing.T) {
	c := &Config{Sequences: 4, ChunkTokens: 8, PageTokens: 4, CacheTokens: 400, Context: 400}
	w := &queue{wake: func() {}}
	s := newScheduler(c, w)
	text := make([]int32, 200)
	for i := range text {
		text[i] = int32(i)
	}
	ask := func(n int) *sequence {
		return &sequence{request: &Request{}, tokens: slices.Clone(text[:n]), prompt: n, limit: 100, out: newOutbox()}
	}
	step := func() {
		var f pendingStep
		s.plan(&f)
		for i := range f.pieces {
			f.pieces[i].pending -= f.pieces[i].chosen
		}
	}
	first := ask(20)
	w.last(first)
	for range 4 {
		step()
	}
	s.leave(first)
	mean := ask(190)
	mean.embed, mean.limit = &embedding{pooling: PoolMean}, 1
	w.last(mean)
	step()
	require.True(t, mean.hidden)
	q := ask(180)
	w.last(q)
	step()
	require.Same(t, s, q.on)
	require.GreaterOrEqual(t, len(q.pages), 4, "what was there from the start")
}

// Answers that wait for the prompt that they share cost a step little, however many they are.
func BenchmarkHeldChoices(b *testing.B) {
	c := &Config{Sequences: 300, ChunkTokens: 512, PageTokens: 64, CacheTokens: 1 << 20}
	w := &queue{wake: func() {}}
	s := newScheduler(c, w)
	var first *sequence
	for range 256 {
		tokens := make([]int32, 32<<10)
		q := &sequence{request: &Request{}, tokens: tokens, prompt: len(tokens), limit: 100}
		if first == nil {
			first = q
		}
		q.first = first
		w.last(q)
	}
	var f pendingStep
	for range 32 {
		require.True(b, s.plan(&f)) // half of the prompt
	}
	require.Len(b, w.waiting, 255)
	for b.Loop() {
		w.admit()
	}
	require.Len(b, w.waiting, 255)
}
