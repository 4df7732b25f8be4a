package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// maxNesting bounds Sequence inside Sequence.
const maxNesting = 4

// matchTimeout bounds one match of a pattern that came with a file: a
// backtracking pattern can take exponential time.
const matchTimeout = 5 * time.Second

// Limits on the patterns of a file: memory and time for compiling grow with their bytes, and each Split is a pass over
// every text. Those of published models have a few hundred bytes.
const (
	maxPattern  = 16 << 10
	maxPatterns = 64 << 10 // of all together
	maxParts    = 64       // Splits and the ByteLevel after them
)

const (
	// qwenPattern is the split pattern of Qwen 2 and 3, and llamaPattern that of Llama
	// 3; for both a scanner exists.
	qwenPattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llamaPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// gpt2Pattern is the pattern that ByteLevel uses by itself.
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// splitter appends the pieces of a text to out. Together they are the text.
type splitter func(ctx context.Context, out []string, text string) ([]string, error)

// loadPreTokenizer returns the splitters to apply one after another. The last
// component must be ByteLevel.
func loadPreTokenizer(raw json.RawMessage) ([]splitter, error) {
	parts, err := flatten(raw, 0)
	if err != nil {
		return nil, err
	}
	if err := checkPatterns(parts); err != nil {
		return nil, err
	}
	var out []splitter
	for i, p := range parts {
		last := i == len(parts)-1
		switch {
		case p.Type == "Split" && !last:
			s, err := p.split()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		case p.Type == "ByteLevel" && last:
			more, err := p.byteLevel()
			return append(out, more...), err
		default:
			return nil, &UnsupportedError{Component: "pre_tokenizer", Got: p.Type, Supported: []string{"Split, then ByteLevel"}}
		}
	}
	return nil, &UnsupportedError{Component: "pre_tokenizer", Got: "none", Supported: []string{"Split, then ByteLevel"}}
}

// preTokenizer is one component of pre_tokenizer in tokenizer.json.
type preTokenizer struct {
	Type          string
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	Pattern       struct{ Regex, String *string }
	Behavior      string
	Invert        bool
	PrefixSpace   bool  `json:"add_prefix_space"`
	UseRegex      *bool `json:"use_regex"`
}

// checkPatterns refuses patterns beyond the limits.
func checkPatterns(parts []preTokenizer) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Field: "pre_tokenizer", Reason: fmt.Sprintf(format, args...)}
	}
	all := 0
	for _, p := range parts {
		n := len(p.pattern())
		if n > maxPattern {
			return fail("a Split pattern has %d bytes, more than %d", n, maxPattern)
		}
		if all += n; all > maxPatterns {
			return fail("the Split patterns together have more than %d bytes", maxPatterns)
		}
	}
	if len(parts) > maxParts {
		return fail("%d components, more than %d", len(parts), maxParts)
	}
	return nil
}

// pattern is the regular expression of a Split; "" without one.
func (p *preTokenizer) pattern() string {
	switch {
	case p.Pattern.Regex != nil:
		return *p.Pattern.Regex
	case p.Pattern.String != nil:
		return regexp2.Escape(*p.Pattern.String)
	}
	return ""
}

// flatten lists the components of nested sequences in order.
func flatten(raw json.RawMessage, depth int) ([]preTokenizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var p preTokenizer
	if err := decode("pre_tokenizer", raw, &p); err != nil {
		return nil, err
	}
	if p.Type != "Sequence" || depth == maxNesting {
		return []preTokenizer{p}, nil
	}
	var out []preTokenizer
	for _, raw := range p.PreTokenizers {
		more, err := flatten(raw, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// split builds a Split: every match, and every stretch between matches, is a
// piece of its own.
func (p *preTokenizer) split() (splitter, error) {
	if p.Behavior != "Isolated" || p.Invert {
		return nil, &UnsupportedError{Component: "Split behavior", Got: p.Behavior, Supported: []string{"Isolated, not inverted"}}
	}
	switch {
	case p.Pattern.Regex == nil && p.Pattern.String == nil:
		return nil, &FormatError{Field: "pre_tokenizer", Reason: "Split without a pattern"}
	case p.Pattern.Regex != nil && *p.Pattern.Regex == qwenPattern:
		return scanner(1), nil
	case p.Pattern.Regex != nil && *p.Pattern.Regex == llamaPattern:
		return scanner(3), nil
	}
	return regexSplitter(p.pattern())
}

// byteLevel builds what ByteLevel does before bytes become symbols.
func (p *preTokenizer) byteLevel() ([]splitter, error) {
	var out []splitter
	if p.PrefixSpace {
		out = append(out, func(_ context.Context, out []string, text string) ([]string, error) {
			if text[0] != ' ' {
				text = " " + text
			}
			return append(out, text), nil
		})
	}
	if p.UseRegex == nil || *p.UseRegex {
		s, err := regexSplitter(gpt2Pattern)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// regexSplitter splits by any pattern. In Oniguruma, ^ and $ are the ends of a line.
func regexSplitter(pattern string) (splitter, error) {
	if part := difference(pattern); part != "" {
		return nil, &UnsupportedError{Component: "Split pattern", Got: "with " + part}
	}
	re, err := regexp2.Compile(longS.Replace(pattern), regexp2.Multiline)
	if err != nil {
		return nil, &UnsupportedError{Component: "Split pattern", Got: err.Error()}
	}
	re.MatchTimeout = matchTimeout
	return func(ctx context.Context, out []string, text string) ([]string, error) {
		return splitRegex(ctx, re, out, text)
	}, nil
}

// splitRegex does the work of regexSplitter. Matches count runes, pieces are
// cut from the text by bytes.
func splitRegex(ctx context.Context, re *regexp2.Regexp, out []string, text string) ([]string, error) {
	at, runes := 0, 0 // where the last piece ended
	advance := func(to int) string {
		start := at
		for ; runes < to; runes++ {
			_, n := utf8.DecodeRuneInString(text[at:])
			at += n
		}
		return text[start:at]
	}
	m, err := re.FindStringMatch(text)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if gap := advance(m.Index); gap != "" {
			out = append(out, gap)
		}
		if piece := advance(m.Index + m.Length); piece != "" {
			out = append(out, piece)
		}
	}
	if err != nil {
		// The error of a time limit quotes all of the text, which may be private.
		return nil, &EncodingError{Offset: -1, Reason: fmt.Sprintf(
			"a match of the split pattern took more than %v, at byte %d of a part of %d bytes", re.MatchTimeout, at, len(text))}
	}
	if at < len(text) {
		out = append(out, text[at:])
	}
	return out, nil
}
