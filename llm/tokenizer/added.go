package tokenizer

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is one entry of added_tokens in tokenizer.json.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // matched after normalization
	Special    bool   `json:"special"`     // left out of plain text
}

// maxAddedToken is the longest added token, in bytes. It bounds the work at each
// byte of a text.
const maxAddedToken = 512

// maxAddedTokens bounds the bytes of all added tokens together: a trie takes much more
// memory than that.
const maxAddedTokens = 1 << 20

// addedSet finds added tokens, the longest at each place, by a trie over bytes.
// The nil *addedSet holds none.
type addedSet struct {
	next  map[byte]*addedSet
	token *addedToken
}

func (a *addedSet) add(content string, token *addedToken) {
	for i := range len(content) {
		if a.next == nil {
			a.next = map[byte]*addedSet{}
		}
		child := a.next[content[i]]
		if child == nil {
			child = &addedSet{}
			a.next[content[i]] = child
		}
		a = child
	}
	a.token = token
}

// longest returns the longest token that text starts with, and its length.
func (a *addedSet) longest(text string) (token *addedToken, length int) {
	for i := range min(len(text), maxAddedToken) {
		if a = a.next[text[i]]; a == nil {
			break
		}
		if a.token != nil {
			token, length = a.token, i+1
		}
	}
	return token, length
}

// all yields the tokens that text starts with, and their lengths.
func (a *addedSet) all(text string) iter.Seq2[*addedToken, int] {
	return func(yield func(*addedToken, int) bool) {
		for i := range min(len(text), maxAddedToken) {
			if a = a.next[text[i]]; a == nil || a.token != nil && !yield(a.token, i+1) {
				return
			}
		}
	}
}

// any reports whether text starts with a token, which may have to be special.
func (a *addedSet) any(text string, special bool) bool {
	for token := range a.all(text) {
		if token.Special || !special {
			return true
		}
	}
	return false
}

// section is a stretch of text: plain text, which begins at an offset, if token is nil.
type section struct {
	text  string
	at    int
	token *addedToken
}

// split cuts the added tokens out of text, except those to be taken as plain text,
// and appends the sections to out.
func (a *addedSet) split(out []section, text string, plain func(at int) bool) []section {
	done := 0 // what lies before is in out
	for i := 0; i < len(text); {
		token, length := a.longest(text[i:])
		if token == nil || plain(i) {
			i++
			continue
		}
		start, stop := i, i+length
		i = stop
		if token.SingleWord && (endsInWord(text[:start]) || startsInWord(text[stop:])) {
			continue
		}
		if token.LStrip {
			before := text[min(done, start):start]
			start -= len(before) - len(strings.TrimRightFunc(before, unicode.IsSpace))
			start = max(start, done)
		}
		if token.RStrip {
			// Text before done is white space that the previous token has taken.
			stop = len(text) - len(strings.TrimLeftFunc(text[max(stop, done):], unicode.IsSpace))
		}
		if start < done { // white space that the previous token has taken
			continue
		}
		if done < start {
			out = append(out, section{text: text[done:start], at: done})
		}
		out = append(out, section{token: token})
		done = stop
	}
	if done < len(text) {
		out = append(out, section{text: text[done:], at: done})
	}
	return out
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsInWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode regular expressions (UTS #18): alphabetic, marks,
// decimal digits, connectors and joiners.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
