package tokenizer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// TestHostileTexts: a megabyte of anything takes about a second at most, and the
// memory of a few lists as long as the text.
func TestHostileTexts(t *testing.T) {
	tok := mote(t)
	for name, unit := range map[string]string{
		"one letter":      "a",
		"spaces":          " ",
		"lines":           "\n",
		"spaces and text": "  a",
		"digits":          "1",
		"signs":           "!",
		"quotes":          "'",
		"beginnings":      "<|im_",
		"special tokens":  "<|im_end|>",
		"marks":           "\u0301",
		"marks, mixed":    "\u0301\u0323\u0345",
		"letters, marks":  "a\u0301\u0323",
		"Hangul, apart":   "\u1112\u1161\u11ab",
		"Chinese":         "你好",
		"emoji":           "👩\u200d🚀",
		"zero bytes":      "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(unit, 1<<20/len(unit))
			testlimit.Run(t, 5*time.Second, 512<<20, func() {
				ids, err := tok.Encode(text)
				require.NoError(t, err)
				require.NotEmpty(t, ids)
				_ = tok.SpecialAt(text)
			})
		})
	}
}

// A context ends the work on a long word soon.
func TestEncodeHonoursContext(t *testing.T) {
	tok := mote(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	testlimit.Run(t, 3*time.Second, 1<<30, func() {
		_, err := tok.EncodeWith(ctx, strings.Repeat("a", 4<<20), tokenizer.EncodeOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A context also ends the work of a normalizer with many forms.
func TestNormalizingHonoursContext(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("normalizer", forms(16))))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	testlimit.Run(t, 4*time.Second, 1<<30, func() {
		_, err := tok.EncodeWith(ctx, strings.Repeat("é", 1<<20), tokenizer.EncodeOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Long added tokens that a text nearly has everywhere, or that begin everywhere in it, cost no
// more than others.
func TestHostileAddedTokens(t *testing.T) {
	var added []string
	token := func(content string, normalized bool) {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":"%s","normalized":%t,"special":%t}`, 10+len(added), content, normalized, len(added) == 0))
	}
	token(strings.Repeat("a", 511)+"b", true)
	token(strings.Repeat("a", 510)+"c", false)
	token("b"+strings.Repeat("a", 511), true)
	token("c"+strings.Repeat("a", 510), false)
	for n := range 200 {
		token(strings.Repeat("e", n+1), n%2 == 0)
	}
	tok, err := tokenizer.Load([]byte(small("normalizer", `{"type":"NFC"}`, "added_tokens", "["+strings.Join(added, ",")+"]",
		"model", `{"type":"BPE","vocab":{"a":0,"Ã":1,"©":2},"merges":[]}`)))
	require.NoError(t, err)
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("e", 1<<20), strings.Repeat("e\u0301", 1<<18)[:3<<18]} {
		testlimit.Run(t, 3*time.Second, 512<<20, func() {
			_, err := tok.EncodeWith(t.Context(), text, tokenizer.EncodeOptions{AsWritten: true})
			require.NoError(t, err)
			require.Empty(t, tok.SpecialAt(text))
		})
	}
}

// A special token is plain text only where that is requested.
func TestPlainAt(t *testing.T) {
	tok := mote(t)
	text := "a<|im_end|>b<|im_end|>"
	require.Equal(t, []int{1, 12}, tok.SpecialAt(text))
	end, _ := tok.ID("<|im_end|>")
	for _, c := range []struct {
		at   []int
		want int
	}{{nil, 2}, {[]int{1}, 1}, {[]int{12}, 1}, {[]int{1, 12}, 0}, {[]int{0, 2}, 2}} {
		ids, err := tok.EncodeWith(t.Context(), text, tokenizer.EncodeOptions{PlainAt: c.at})
		require.NoError(t, err)
		n := 0
		for _, id := range ids {
			if id == end {
				n++
			}
		}
		require.Equal(t, c.want, n, c.at)
		require.Equal(t, text, tok.Decode(ids, tokenizer.KeepSpecial))
	}
}

// Added tokens that are not special can be plain text, too.
func TestAddedIn(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("normalizer", `{"type":"NFC"}`,
		"added_tokens", `[{"id":9,"content":"<x>"},{"id":8,"content":"x","special":true},{"id":10,"content":"<x>x","normalized":true}]`,
		"model", `{"type":"BPE","vocab":{"<":0,"y":1,">":2,"a":3,"K":6},"merges":[]}`)))
	require.NoError(t, err)
	require.Equal(t, []tokenizer.Added{
		{ID: 9, Start: 1, End: 4}, {ID: 10, Start: 1, End: 5}, {ID: 8, Start: 2, End: 3, Special: true}, {ID: 8, Start: 4, End: 5, Special: true},
	}, slices.Collect(tok.AddedIn("a<x>x")))
	for text, one := range tok.AllAdded() {
		require.Contains(t, slices.Collect(tok.AddedIn(text)), one)
	}
	ids, err := tok.EncodeWith(t.Context(), "<x><x>", tokenizer.EncodeOptions{PlainAt: []int{3}})
	require.NoError(t, err)
	require.Equal(t, []int{9, 0, 8, 2}, ids)
}

// Tokens that only normalization makes are plain text on request.
func TestAsWritten(t *testing.T) {
	tok, err := tokenizer.Load([]byte(small("normalizer", `{"type":"NFC"}`, "added_tokens", `[{"id":9,"content":"KK","normalized":true}]`,
		"model", `{"type":"BPE","vocab":{"a":0,"K":6},"merges":[]}`)))
	require.NoError(t, err)
	for text, want := range map[string][]int{"KKa": {9, 0}, "\u212aKa": {6, 6, 0}, "KK\u212a": {9, 6}} {
		ids, err := tok.EncodeWith(t.Context(), text, tokenizer.EncodeOptions{AsWritten: true})
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
}
