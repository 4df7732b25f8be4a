package tokenizer_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

func TestLookups(t *testing.T) {
	tok := mote(t)
	id, ok := tok.ID("<|im_end|>")
	require.True(t, ok)
	require.Equal(t, 2045, id)
	require.True(t, tok.IsSpecial(id))
	text, ok := tok.Token(id)
	require.True(t, ok)
	require.Equal(t, "<|im_end|>", text)
	_, ok = tok.ID("no such token")
	require.False(t, ok)
	_, ok = tok.Token(5000)
	require.False(t, ok)
	require.Equal(t, 2048, tok.Limit())
}

func TestDecodeUnknown(t *testing.T) {
	tok := mote(t)
	require.Equal(t, "", tok.Decode([]int{-1, 2048, math.MaxInt}, tokenizer.KeepSpecial))
	require.Equal(t, "", tok.Decode(nil, tokenizer.KeepSpecial))
}

func TestInvalidUTF8(t *testing.T) {
	tok := mote(t)
	for text, offset := range map[string]int{"\xff": 0, "abc\xe4\xbd": 3, "ok\xc0\x80": 2, "\xed\xa0\x80": 0} {
		_, err := tok.Encode(text)
		require.ErrorIs(t, err, tokenizer.ErrEncoding)
		var e *tokenizer.EncodingError
		require.ErrorAs(t, err, &e)
		require.Equal(t, offset, e.Offset)
	}
}

// TestRoundTrip: byte-level BPE changes nothing except by NFC.
func TestRoundTrip(t *testing.T) {
	tok := mote(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, norm.NFC.String(text), tok.Decode(ids, tokenizer.KeepSpecial))
	})
}

// TestStream: pieces of a stream are valid, and together are the whole text.
func TestStream(t *testing.T) {
	tok := mote(t)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(rapid.IntRange(0, 255), rapid.IntRange(0, 2100))).Draw(t, "ids")
		skip := rapid.SampledFrom([]tokenizer.Special{tokenizer.KeepSpecial, tokenizer.SkipSpecial}).Draw(t, "skip")
		d := tok.NewDecoder(skip)
		var all strings.Builder
		for _, id := range ids {
			s := d.Push(id)
			require.True(t, utf8.ValidString(s))
			all.WriteString(s)
		}
		all.WriteString(d.Flush())
		require.Equal(t, tok.Decode(ids, skip), all.String())
		require.Empty(t, d.Flush())
	})
}

// TestStreamHoldsBack: a character is not shown before its last byte.
func TestStreamHoldsBack(t *testing.T) {
	tok := mote(t)
	ids, err := tok.Encode("🙂")
	require.NoError(t, err)
	require.Greater(t, len(ids), 1)
	d := tok.NewDecoder(tokenizer.KeepSpecial)
	for _, id := range ids[:len(ids)-1] {
		require.Empty(t, d.Push(id))
	}
	require.Equal(t, "🙂", d.Push(ids[len(ids)-1]))
	require.Empty(t, d.Flush())

	d.Push(ids[0])
	require.Equal(t, "\ufffd", d.Flush())
}

// TestLongRuns: one piece of a million symbols must not take quadratic time.
func TestLongRuns(t *testing.T) {
	tok := mote(t)
	start := time.Now()
	for _, unit := range []string{"a", " ", "\n", "the", "中文", "!?", "\u0301", "ㅠ", "\uffd3", "\u034f"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.True(t, text == tok.Decode(ids, tokenizer.KeepSpecial), "%+q", unit)
	}
	require.Less(t, time.Since(start), 30*time.Second)
}

// TestConcurrent uses one tokenizer from several goroutines, for the race detector.
func TestConcurrent(t *testing.T) {
	tok := mote(t)
	want, err := tok.Encode("Hello, world! 你好啊")
	require.NoError(t, err)
	done := make(chan []int)
	for range 4 {
		go func() {
			ids, _ := tok.Encode("Hello, world! 你好啊")
			done <- ids
		}()
	}
	for range 4 {
		require.Equal(t, want, <-done)
	}
}

// small is a complete tokenizer.json with a few tokens, as a base for changes.
func small(changes ...string) string {
	fields := map[string]string{
		"model":         `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abab":3},"merges":["a b",["ab","ab"]]}`,
		"added_tokens":  `[{"id":9,"content":"<x>","special":true}]`,
		"pre_tokenizer": `{"type":"ByteLevel","use_regex":false}`,
		"decoder":       `{"type":"ByteLevel"}`,
	}
	for i := 0; i+1 < len(changes); i += 2 {
		fields[changes[i]] = changes[i+1]
	}
	var parts []string
	for name, value := range fields {
		parts = append(parts, `"`+name+`":`+value)
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}

// A special token that a text has only once it is normalized can be plain text, too.
func TestSpecialAfterNormalization(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("normalizer", `{"type":"NFC"}`, "added_tokens", `[{"id":9,"content":"K","special":true,"normalized":true}]`,
		"model", `{"type":"BPE","vocab":{"a":0,"K":9},"merges":[]}`)))
	require.NoError(t, err)
	const kelvin = "a\u212a"
	require.Equal(t, []int{0}, tok.SpecialAt(kelvin))
	ids, err := tok.EncodeWith(t.Context(), kelvin, tokenizer.EncodeOptions{})
	require.NoError(t, err)
	require.Equal(t, []int{0, 9}, ids)
}

// A quoted special token leaves the others special where tokens are found after normalization, too.
func TestPlainAtAfterNormalization(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("normalizer", `{"type":"NFC"}`,
		"added_tokens", `[{"id":9,"content":"<x>","special":true,"normalized":true},{"id":8,"content":"#","special":true},
			{"id":10,"content":"KK","special":true,"normalized":true}]`,
		"model", `{"type":"BPE","vocab":{"<":0,"x":1,">":2,"a":3,"Ã":4,"©":5,"K":6},"merges":[]}`)))
	require.NoError(t, err)
	for _, c := range []struct {
		text string
		at   []int
		want []int
	}{
		{"<x>a<x>", []int{4}, []int{9, 3, 0, 1, 2}},
		{"<x>a<x>", []int{0}, []int{0, 1, 2, 3, 9}},
		{"#a<x><x>", []int{5}, []int{8, 3, 9, 0, 1, 2}},
		{"e\u0301<x>e\u0301<x>", []int{9}, []int{4, 5, 9, 4, 5, 0, 1, 2}}, // normalization moves them
		{"#e\u0301<x>e\u0301<x>", []int{4}, []int{8, 4, 5, 0, 1, 2, 4, 5, 9}},
		{"\u212a\u212a<x>", []int{0}, []int{6, 6, 9}}, // only normalization makes the first one
		{"\u212a\u212a<x>", nil, []int{10, 9}},
	} {
		ids, err := tok.EncodeWith(t.Context(), c.text, tokenizer.EncodeOptions{PlainAt: c.at})
		require.NoError(t, err)
		require.Equal(t, c.want, ids, "%q %v", c.text, c.at)
	}
}

// With ignore_merges, a piece is a token of the vocabulary only if that is written in the alphabet of bytes.
func TestIgnoreMergesTakesTheAlphabet(t *testing.T) {
	for range 20 { // the vocabulary has no order
		tok, err := tokenizer.Load([]byte(small("model", `{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"Ġ":1,"Ġa":2," a":3},"merges":[]}`)))
		require.NoError(t, err)
		ids, err := tok.Encode(" a")
		require.NoError(t, err)
		require.Equal(t, []int{2}, ids)
	}
}

func TestSmall(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small()))
	require.NoError(t, err)
	ids, err := tok.Encode("ababa<x>bab")
	require.NoError(t, err)
	require.Equal(t, []int{3, 0, 9, 1, 2}, ids)
	require.Equal(t, "ababa<x>bab", tok.Decode(ids, tokenizer.KeepSpecial))
	require.Equal(t, "abababab", tok.Decode(ids, tokenizer.SkipSpecial))
	_, err = tok.Encode("abc")
	require.ErrorIs(t, err, tokenizer.ErrEncoding)
	require.ErrorContains(t, err, "0x63")
}

// A token of white space that takes the white space around it is there once, however much there is.
func TestWhiteSpaceTaken(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("added_tokens", `[{"id":9,"content":" ","lstrip":true,"rstrip":true},{"id":8,"content":"\t","lstrip":true}]`)))
	require.NoError(t, err)
	for text, want := range map[string][]int{"a   b ": {0, 9, 1, 9}, " \tb": {9, 1}, "a\t\tb": {0, 8, 8, 1}, "a\n\t b": {0, 8, 9, 1}} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, "%q", text)
	}
}

// FuzzTokenizer: any text either is refused as invalid UTF-8 or comes back.
func FuzzTokenizer(f *testing.F) {
	tok := mote(f)
	for _, s := range []string{"", "Hello, world!", "你好啊", "<|im_start|>user\n<|im_end", "\xff", "e\u0301\u0323", "\u1100\u1161", "don't\r\n\r\n x", "a\u0344\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := tok.Encode(text)
		if !utf8.ValidString(text) {
			require.ErrorIs(t, err, tokenizer.ErrEncoding)
			return
		}
		require.NoError(t, err)
		// Package norm breaks long runs of combining characters by U+034F, we do not.
		// Around an added token two parts are normalized apart.
		const joiner = "\u034f"
		want := norm.NFC.String(text)
		if strings.Count(want, joiner) == strings.Count(text, joiner) && !strings.Contains(text, ">") {
			require.Equal(t, want, tok.Decode(ids, tokenizer.KeepSpecial))
		}
		for _, id := range ids {
			require.Less(t, id, tok.Limit())
		}
	})
}

// FuzzTokenizerJSON: any file is loaded or refused with a typed error, and what
// was loaded encodes without a panic.
func FuzzTokenizerJSON(f *testing.F) {
	f.Add([]byte(small()))
	f.Add([]byte(small("normalizer", `{"type":"NFC"}`, "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":true}`)))
	f.Add([]byte(small("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a|b+"},"behavior":"Isolated"},{"type":"ByteLevel"}]}`)))
	f.Add([]byte(small("added_tokens", `[{"id":9,"content":"a","lstrip":true,"rstrip":true,"single_word":true},{"id":8,"content":"ab","normalized":true}]`)))
	f.Add([]byte(small("model", `{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":7},"merges":[]}`)))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := tokenizer.Load(data)
		if err != nil {
			var format *tokenizer.FormatError
			var unsupported *tokenizer.UnsupportedError
			require.True(t, errors.As(err, &format) || errors.As(err, &unsupported), "%v", err)
			return
		}
		for _, text := range []string{"", "a", "abab ab", " a b ", "<x>ab<x>"} {
			if ids, err := tok.Encode(text); err == nil {
				tok.Decode(ids, tokenizer.KeepSpecial)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := mote(b)
	var goldens struct {
		Cases []struct{ Rendered, Text string }
	}
	require.NoError(b, json.Unmarshal(readFile(b, goldensFile), &goldens))
	var text strings.Builder
	for range 20 {
		for _, c := range goldens.Cases {
			text.WriteString(c.Rendered + c.Text)
		}
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := tok.Encode(text.String()); err != nil {
			b.Fatal(err)
		}
	}
}
