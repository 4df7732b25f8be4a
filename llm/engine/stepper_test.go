package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/kompute"
)

// A step with prompts never has twice the rows that it needs where its time is
// proportional to them.
func TestSizes(t *testing.T) {
	s := &stepper{config: &Config{Sequences: 32, ChunkTokens: 1024, PageTokens: 64, Context: 6400}}
	rows := func(n, chosen int) int {
		z := s.sizeFor(&pendingStep{rows: n, chosen: chosen})
		require.GreaterOrEqual(t, z.rows, n)
		require.GreaterOrEqual(t, z.chosen, chosen)
		return z.rows
	}
	for n, want := range map[int]int{2: 16, 17: 64, 65: 256, 257: 512, 512: 512, 513: 1024, 1024: 1024} {
		require.Equal(t, want, rows(n, 1), "%d rows", n)
	}
	for n, want := range map[int]int{1: 1, 3: 4, 17: 32, 32: 32} {
		require.Equal(t, want, rows(n, n), "%d tokens", n)
	}
}

// Every step fits, with tokens to choose after some of its rows or after all.
func TestSizesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{Sequences: rapid.IntRange(1, 300).Draw(t, "sequences"), ChunkTokens: rapid.IntRange(1, 600).Draw(t, "chunk"), PageTokens: 64, Context: 6400}
		rows := rapid.IntRange(1, c.mostRows()).Draw(t, "rows")
		chosen := rapid.IntRange(0, min(rows, c.Sequences)).Draw(t, "chosen")
		if rows == chosen {
			chosen = rapid.IntRange(0, rows-1).Draw(t, "fewer")
		}
		onHost := rapid.IntRange(0, chosen).Draw(t, "on the host")
		s := &stepper{config: c}
		z := s.sizeFor(&pendingStep{rows: rows, chosen: chosen, onHost: onHost})
		require.GreaterOrEqual(t, z.logits, onHost)
		require.LessOrEqual(t, z.logits, z.chosen)
		require.Equal(t, onHost > 0, z.logits > 0)
		for _, flag := range []func(z *size) *bool{
			func(z *size) *bool { return &z.adjusted }, func(z *size) *bool { return &z.biased }, func(z *size) *bool { return &z.masked },
		} {
			largest := s.largest(0)
			*flag(&z) = true
			require.True(t, largest.replaces(z))
			*flag(&largest) = false
			require.False(t, largest.replaces(z))
		}
		require.False(t, z.all, "rows without a token among others")
		require.GreaterOrEqual(t, z.rows, rows)
		require.LessOrEqual(t, z.rows, c.mostRows())
		require.GreaterOrEqual(t, z.chosen, chosen)
		require.LessOrEqual(t, z.chosen, min(z.rows, c.Sequences))
	})
}

// However many tokens may be guessed, a step has room for no more guesses than its rows can have.
func TestAnyNumberOfGuesses(t *testing.T) {
	m, folder := small(t)
	for _, draft := range []int{1, 1000, math.MaxInt / 4, math.MaxInt} {
		e, err := New(m, folder.Tokenizer, Config{Sequences: 4, Context: 128, PageTokens: 16, Draft: draft})
		require.NoError(t, err)
		require.LessOrEqual(t, e.replicas[0].steps.largest(0).guesses, 12)
		s, err := e.Submit(t.Context(), Request{
			Prompt: []int{1, 2, 3, 1, 2, 3, 1, 2, 3}, MaxTokens: 40, FrequencyPenalty: 40, LogitBias: map[int]float64{1: 300, 2: 290, 3: 280},
		})
		require.NoError(t, err)
		_, err = s.Result(t.Context())
		require.NoError(t, err)
		require.Positive(t, e.Stats().AcceptedTokens)
		require.NoError(t, e.Close(t.Context()))
	}
}

// The steps that were used last are kept, with those in flight and the largest ones.
func TestStepsThatAreKept(t *testing.T) {
	m, _ := small(t)
	c := Config{Sequences: 4, Context: 128, PageTokens: 1}
	require.NoError(t, c.fill(m))
	s, err := newStepper(m, &c)
	require.NoError(t, err)
	var all []size
	for pages := 2; len(all) < mostSteps+30; pages++ {
		for rows := 1; rows <= c.Sequences; rows++ {
			all = append(all, size{rows: rows, chosen: rows, pages: pages, all: true, slot: pages % maxInFlight})
		}
	}
	for i, z := range all {
		made, err := s.captured(z)
		require.NoError(t, err)
		if made.used = uint64(i + 1); i == 0 {
			s.last[z.slot] = made
		}
		require.LessOrEqual(t, len(s.sizes), mostSteps)
	}
	for slot := range maxInFlight {
		require.NotNil(t, s.sizes[s.largest(slot)])
	}
	require.NotNil(t, s.sizes[all[0]], "it is in flight")
	// Sizes that had no memory cost no other its place, and are tried again when there are many.
	kept := len(s.sizes)
	for pages := 10000; len(s.sizes) < 2*mostSteps-1; pages++ {
		s.sizes[size{rows: 1, pages: pages}] = s.sizes[s.largest(0)]
		require.NoError(t, s.makeRoom())
	}
	s.sizes[size{rows: 1, pages: 1}] = s.sizes[s.largest(0)]
	require.NoError(t, s.makeRoom())
	require.Len(t, s.sizes, kept-1)
	_, err = s.captured(all[len(all)-1])
	require.NoError(t, err)
	gone := len(all) + maxInFlight - mostSteps + 1
	for i, z := range all[1:] {
		require.Equal(t, i < gone, s.sizes[z] == nil, i)
	}
	require.NoError(t, s.close())
}

// However few rows a step may have, one sequence runs.
func TestRowsAreLimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{Sequences: rapid.IntRange(1, 300).Draw(t, "sequences"), ChunkTokens: rapid.IntRange(1, 600).Draw(t, "chunk")}
		most := rapid.IntRange(1, 700).Draw(t, "most")
		c.limitRows(most)
		require.LessOrEqual(t, c.mostRows(), most)
		require.Positive(t, c.Sequences)
		require.Positive(t, c.ChunkTokens)
	})
	c := &Config{Sequences: 32, ChunkTokens: 512}
	c.limitRows(math.MaxInt)
	require.Equal(t, Config{Sequences: 32, ChunkTokens: 512}, *c)
	c.limitRows(8)
	require.Equal(t, Config{Sequences: 7, ChunkTokens: 8}, *c)
	gone, err := kompute.Open("cpu")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	require.Equal(t, Config{Sequences: 1, ChunkTokens: 1, BatchInvariant: true}, Config{Sequences: 7, ChunkTokens: 8, BatchInvariant: true}.on(gone))
}

// A step sees little more than the pages that its sequences have, and all of them.
func TestPagesOfAStep(t *testing.T) {
	s := &stepper{config: &Config{PageTokens: 64, Context: 6400, Sequences: 2, ChunkTokens: 2}}
	for most, want := range map[int]int{1: 4, 4: 4, 5: 16, 16: 16, 17: 64, 64: 64, 65: 100, 100: 100} {
		f := &pendingStep{rows: 2, chosen: 2, pieces: []piece{
			{sequence: &sequence{pages: make([]*page, 1)}, count: 1},
			{sequence: &sequence{pages: make([]*page, most)}, count: 1},
		}}
		z := s.sizeFor(f)
		require.Equal(t, want, z.pages, "%d pages", most)
		require.True(t, z.apart)
		f.pieces[1].count = 2
		require.False(t, s.sizeFor(f).apart)
	}
	// More than one, since attention to a single page of a row alone is divided in another way.
	f := &pendingStep{rows: 1, chosen: 1, pieces: []piece{{sequence: &sequence{pages: make([]*page, 1)}, count: 1}}}
	s.config.PageTokens = 6400
	require.Equal(t, 2, s.sizeFor(f).pages)
}

// If steps differ only in their slot, only the last one is profiled. Steps that have not run are not profiled, nor are
// those under the size of another that they replace.
func TestStepsToProfile(t *testing.T) {
	one, two, large := size{rows: 1}, size{rows: 2}, size{rows: 64}
	at := func(z size, slot int) size {
		z.slot = slot
		return z
	}
	s := &stepper{sizes: map[size]*step{}}
	for used, z := range []size{at(large, 0), at(one, 1), at(one, 0), at(two, 0), at(two, 1)} {
		s.sizes[z] = &step{size: z, used: uint64(used)}
	}
	s.sizes[size{rows: 32, slot: 1}] = s.sizes[at(two, 1)]
	require.Equal(t, map[size]*step{one: s.sizes[at(one, 0)], two: s.sizes[at(two, 1)]}, s.lastOfEachKind())
}
