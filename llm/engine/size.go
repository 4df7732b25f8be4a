package engine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/kompute-go/kompute-go/ops"
)

// size is how many rows a step has, after how many of them the device chooses a token,
// and how, and how many pages of each sequence it sees. Each of the steps in flight
// has operands of its own, and so regions of its own.
type size struct {
	rows, chosen int
	pages        int
	sampled      bool // not all tokens greedily
	logits       int  // how many of the chosen rows, the first ones, the host gets the logits of
	states       bool // the host gets the states of all rows
	adjusted     bool // there are texts, whose penalties the device applies
	biased       bool // and whose biases it adds
	guesses      int  // how many tokens that are guessed ahead can be counted before such a text's tokens are chosen
	masked       bool // only some tokens may be chosen; which ones is known later than the rest
	all          bool // a token is chosen after every row, in their order
	apart        bool // each row is of another sequence
	slot         int
}

// textsAt returns where in a step's places the texts of its rows begin, and then those of the
// chosen ones, if it is adjusted, and then which of the chosen ones guesses come before.
func (z size) textsAt() int { return 5*z.rows + z.chosen }

// guessesAt returns where these guesses begin, in places; in inputs, the guessed tokens follow the amounts.
func (z size) guessesAt() int { return z.textsAt() + z.rows + z.chosen }

// tableAt returns where in a step's places the pages of sequences begin.
func (z size) tableAt() int {
	if z.adjusted {
		return z.guessesAt() + z.guesses
	}
	return z.textsAt()
}

// amountsAt returns where in a step's inputs those for the counts of texts begin.
func (z size) amountsAt() int { return z.rows + z.chosen*ops.SampleParamsSize }

// replaces reports whether a step of the larger size z can do what one of the smaller does.
func (z size) replaces(smaller size) bool {
	room := z.rows >= smaller.rows && z.chosen >= smaller.chosen && z.pages >= smaller.pages && z.logits >= smaller.logits && z.guesses >= smaller.guesses
	able := z.sampled && (z.states || !smaller.states) && (z.adjusted || !smaller.adjusted) && (z.biased || !smaller.biased) && (z.masked || !smaller.masked)
	return room && able && (smaller.all || !z.all) && (smaller.apart || !z.apart) && z.slot == smaller.slot
}

// compare orders sizes by how long their steps take, roughly.
func (z size) compare(other size) int {
	return cmp.Or(cmp.Compare(z.rows, other.rows), cmp.Compare(z.pages, other.pages), cmp.Compare(z.chosen, other.chosen), cmp.Compare(z.guesses, other.guesses))
}

// largest returns the size that replaces all others.
func (t *stepper) largest(slot int) size {
	return size{
		rows: t.config.mostRows(), chosen: t.config.Sequences, pages: t.mostPages(), sampled: true, logits: t.config.Sequences,
		states: true, adjusted: true, biased: true, guesses: t.mostGuesses(t.config.Sequences), masked: true, slot: slot,
	}
}

// mostGuesses returns a bound for the guesses before each of so many chosen tokens, added up: there are at most Draft
// before one, and fewer than there are chosen tokens.
func (t *stepper) mostGuesses(chosen int) int { return chosen * min(t.config.Draft, chosen-1) }

// sizeFor returns the smallest size that a step fits in: powers of two for tokens
// that are generated. With pieces of prompts among them it is a power of four while a
// step takes nearly as long with few rows as with many, and a power of two from
// proportionalRows on, up to ChunkTokens.
func (t *stepper) sizeFor(f *pendingStep) size {
	z := t.rowsFor(f)
	if slices.ContainsFunc(f.pieces, func(p piece) bool { return p.penalties != nil && len(p.draft) > 0 }) {
		z.guesses = t.mostGuesses(z.chosen)
	}
	for z.logits = min(f.onHost, 1); z.logits < f.onHost; {
		z.logits = min(4*z.logits, z.chosen)
	}
	return z
}

// rowsFor is sizeFor without the numbers of guesses and of rows that the host gets logits of.
func (t *stepper) rowsFor(f *pendingStep) size {
	z := size{pages: t.visiblePages(f), slot: f.slot, states: f.embedded > 0}
	for i := range f.pieces {
		p := &f.pieces[i]
		z.adjusted = z.adjusted || p.penalties != nil || p.biased && p.chosen > 0
		if p.chosen > 0 && p.chooser == nil {
			z.biased = z.biased || p.biased
			z.masked = z.masked || p.guide.restricts(p.draw)
			z.sampled = z.sampled || !p.request.Sampling.Greedy()
		}
	}
	if f.rows == f.chosen {
		z.rows = min(1<<bits.Len(uint(f.rows-1)), t.config.Sequences)
		z.chosen, z.all = z.rows, true
		z.apart = !slices.ContainsFunc(f.pieces, func(p piece) bool { return p.count > 1 })
		return z
	}
	z.rows, z.chosen = 16, 1
	for z.rows < f.rows {
		if z.rows < proportionalRows {
			z.rows *= 4
		} else {
			z.rows *= 2
		}
	}
	for z.chosen < f.chosen {
		z.chosen *= 4
	}
	if z.rows > t.config.ChunkTokens {
		z.rows = t.config.ChunkTokens
		if f.rows > z.rows {
			z.rows = t.config.mostRows()
		}
	}
	z.chosen = min(z.chosen, z.rows, t.config.Sequences)
	return z
}

// visiblePages returns how many pages of each sequence a step sees: as many as hold 256
// tokens, or two, or 4, 16, … times as many, or the whole context. Attention over pages
// has workgroups for all tokens that a row could see, which take time even if it does not
// see them. A row's sums do not depend on this number, provided that it is more than one
// (RATIONALE.md, Many requests).
func (t *stepper) visiblePages(f *pendingStep) int {
	most := 0
	for i := range f.pieces {
		most = max(most, len(f.pieces[i].pages))
	}
	n := max(t.config.pagesFor(256), 2)
	for n < most {
		n *= 4
	}
	return min(n, t.mostPages())
}

// mostPages is how many pages of a sequence a step can see.
func (t *stepper) mostPages() int { return max(t.config.pagesFor(t.config.Context), 2) }

// proportionalRows is how many rows a step must have to take about twice as long with
// twice as many.
const proportionalRows = 256
