package engine

import "slices"

// lookup guesses what follows in a sequence from what followed the same tokens
// before (prompt lookup; Saxena, 2023). It looks on while tokens are chosen one by
// one, and drafts only while its guesses come true, so that text that does not repeat
// costs nothing.
type lookup struct {
	places map[[lookupTokens]int32]int // where these tokens were last followed by another
	seen   int                         // tokens in places
	guess  int                         // index of the token that is guessed to come next; 0: none
	streak int                         // guesses in a row that came true
}

const (
	lookupTokens = 3 // tokens that must be the same
	// leastStreak is how many guesses have to come true before drafts are made.
	leastStreak = 2
)

// accept takes in the last of the tokens.
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
	// The last ones are followed by nothing yet.
	for l.seen = max(l.seen, lookupTokens); l.seen < len(tokens); l.seen++ {
		l.places[[lookupTokens]int32(tokens[l.seen-lookupTokens:l.seen])] = l.seen
	}
	if l.guess == 0 && len(tokens) >= lookupTokens {
		l.guess = l.places[[lookupTokens]int32(tokens[len(tokens)-lookupTokens:])]
	}
}

// drafts reports whether it is worth to draft.
func (l *lookup) drafts() bool { return l != nil && l.guess > 0 && l.streak >= leastStreak }

// draft returns up to n tokens that may follow.
func (l *lookup) draft(tokens []int32, n int) []int32 {
	if !l.drafts() {
		return nil
	}
	return slices.Clone(tokens[l.guess:min(l.guess+n, len(tokens))])
}
