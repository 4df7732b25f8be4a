package tokenizer

import (
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

// maxAddedToken is the longest added token, in bytes. As many tokens may begin at each
// byte of a text.
const maxAddedToken = 512

// maxAddedTokens bounds the bytes of all added tokens together: an addedSet takes much
// more memory than that.
const maxAddedTokens = 1 << 20

// section is a stretch of text: plain text, which begins at an offset, if token is nil.
type section struct {
	text  string
	at    int
	token *addedToken
}

// split cuts the added tokens out of text, except those to be taken as plain text,
// and appends the sections to out.
func (a *addedSet) split(out []section, text string, plain func(at int, token *addedToken) bool) []section {
	done, past := 0, 0 // what lies before done is in out; the last token has been read up to past
	for _, p := range a.find(text) {
		token, length := a.longest(p)
		if p.at < past || plain(p.at, token) {
			continue
		}
		start, stop := p.at, p.at+length
		past = stop
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
		if start < done || start >= stop { // white space that the previous token has taken
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
