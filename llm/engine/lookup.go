package engine

import "slices"

// lookup guesses what follows in a sequence from what followed the same tokens before
// (prompt lookup; Saxena, 2023). While tokens are chosen one by one, it checks its
// guesses silently, and drafts only if they come true, so that text without
// repetition costs nothing.
type lookup struct {
	places map[[lookupTokens]int32]int // where these tokens were last followed by another
	seen   int                         // tokens in places
	guess  int                         // index of the token that is guessed to come next; 0: none
	streak int                         // guesses in a row that came true
}

const (
	lookupTokens = 3 // number of tokens that must be the same
	// leastStreak is how many guesses have to come true before drafts are made.
	leastStreak = 2
)

// accept records the last token.
func (l *lookup) accept(tokens []int32) {
	last := len(tokens) - 1
	if l.guess > 0 && tokens[l.guess] == tokens[last] {
		l.guess++
		l.streak++
	} else {
		l.guess, l.streak = 0, 0
	}
	if l.places == nil {
		l.places = map[[lookupTokens]int32]int{}
	}
	// Nothing follows the last ones yet.
	for l.seen = max(l.seen, lookupTokens); l.seen < len(tokens); l.seen++ {
		l.places[[lookupTokens]int32(tokens[l.seen-lookupTokens:l.seen])] = l.seen
	}
	if l.guess == 0 && len(tokens) >= lookupTokens {
		l.guess = l.places[[lookupTokens]int32(tokens[len(tokens)-lookupTokens:])]
	}
}

// drafts reports whether drafting is worthwhile.
func (l *lookup) drafts() bool { return l != nil && l.guess > 0 && l.streak >= leastStreak }

// draft returns up to n tokens that may follow.
func (l *lookup) draft(tokens []int32, n int) []int32 {
	if !l.drafts() {
		return nil
	}
	return slices.Clone(tokens[l.guess:min(l.guess+n, len(tokens))])
}
