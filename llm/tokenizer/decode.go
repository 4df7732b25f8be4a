package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Special selects how special tokens, such as <|im_end|>, appear in a text.
type Special int

const (
	KeepSpecial Special = iota // they are written out
	SkipSpecial                // they are left out
)

// Decode returns the text of ids. Ids without a token, which a model with a padded
// vocabulary may produce, are skipped. Bytes that are not UTF-8 become U+FFFD, one
// per maximal invalid sequence. A nil tokenizer has no tokens.
func (t *Tokenizer) Decode(ids []int, special Special) string {
	d := t.NewDecoder(special)
	var out []byte
	for _, id := range ids {
		out = d.push(out, id)
	}
	return string(out) + d.Flush()
}

// Decoder turns a stream of ids into text. A character may be spread over
// several tokens: it is held back until it is complete, so every string that
// Push returns is whole. It is not safe for concurrent use.
type Decoder struct {
	t       *Tokenizer
	special Special
	pending []byte // the start of an incomplete character, at most three bytes
}

// NewDecoder starts a stream.
func (t *Tokenizer) NewDecoder(special Special) *Decoder {
	return &Decoder{t: t, special: special}
}

// Clone returns a decoder that goes on from the same place, independently; nil for a nil decoder.
func (d *Decoder) Clone() *Decoder {
	if d == nil {
		return nil
	}
	own := *d
	own.pending = slices.Clone(d.pending)
	return &own
}

// Push takes the next id and returns the text that is now complete, maybe "".
func (d *Decoder) Push(id int) string { return string(d.push(nil, id)) }

// Flush ends the stream: an incomplete character becomes U+FFFD.
func (d *Decoder) Flush() string {
	if d == nil || len(d.pending) == 0 {
		return ""
	}
	d.pending = d.pending[:0]
	return string(utf8.RuneError)
}

func (d *Decoder) push(out []byte, id int) []byte {
	if d == nil || d.t == nil {
		return out
	}
	e := d.t.tokens[id]
	if e.special && d.special == SkipSpecial {
		return out
	}
	d.pending = append(d.pending, e.bytes...)
	in := d.pending
	for len(in) > 0 {
		if r, n := utf8.DecodeRune(in); r != utf8.RuneError || n > 1 {
			out = append(out, in[:n]...)
			in = in[n:]
			continue
		}
		n := 1 // length of the maximal invalid sequence: a character's proper start, or one byte
		for n < len(in) && !utf8.FullRune(in[:n+1]) {
			n++
		}
		if n == len(in) && !utf8.FullRune(in) {
			break // it may still become a character
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		in = in[n:]
	}
	d.pending = append(d.pending[:0], in...)
	return out
}
