package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// classes are escapes for sets of characters. Those that validate what is generated do not agree about them: \w and \d are
// ASCII for ECMA-262, but not for Rust and Python. So certain are the characters that are in a set for all of these, and
// possible are those that are in it for any of them.
var classes = map[byte]struct{ certain, possible func() runes }{
	'd': {of(runes{'0', '9'}), tables(unicode.Nd)},
	'w': {of(asciiWord), sync.OnceValue(func() runes { return sorted(slices.Concat(asciiWord, otherWord())) })},
	's': {of(space.without(runes{0xfeff, 0xfeff})), of(sorted(slices.Concat(runes{0x85, 0x85}, space)))},
}

// asciiWord are the characters of words in ECMA-262.
var asciiWord = runes{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}

// otherWord are the other characters that any implementation counts as parts of words.
var otherWord = sync.OnceValue(func() runes {
	return tables(unicode.L, unicode.M, unicode.N, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)().without(asciiWord)
})

// space are the characters of \s in ECMA-262 (WhiteSpace and LineTerminator).
var space = runes{0x9, 0xd, ' ', ' ', 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff}

func of(set runes) func() runes { return func() runes { return set } }

// tables returns the characters of tables.
func tables(all ...*unicode.RangeTable) func() runes {
	return sync.OnceValue(func() (out runes) {
		for _, t := range all {
			for _, r := range t.R16 {
				out = spread(out, rune(r.Lo), rune(r.Hi), rune(r.Stride))
			}
			for _, r := range t.R32 {
				out = spread(out, rune(r.Lo), rune(r.Hi), rune(r.Stride))
			}
		}
		return sorted(out)
	})
}

// spread appends every stride-th character from lo to hi.
func spread(out runes, lo, hi, stride rune) runes {
	if stride == 1 {
		return append(out, lo, hi)
	}
	for r := lo; r <= hi; r += stride {
		out = append(out, r, r)
	}
	return out
}

// mostTranslated bounds the length of a translation: some escapes become hundreds of ranges.
const mostTranslated = 1 << 20

// translation makes a regular expression of a schema, which are those of ECMA-262 (JSON Schema Core, section 6.4), one of
// Go. These differ in few points, and have no references, lookaheads and lookbehinds.
type translation struct {
	out            strings.Builder
	rest           string
	class, negated bool // within [ or [^ and ]
	possible       bool // it matches all that any implementation matches, not only what all match
	within         bool // a lookahead, which contains no other one
	looks          []lookahead
	work           int // the length of lookaheads
}

// parse returns the whole expression.
func (t *translation) parse() (*syntax.Regexp, error) {
	for t.rest != "" {
		if err := t.next(); err != nil {
			return nil, err
		}
		if t.out.Len() > mostTranslated {
			return nil, errors.New("too long")
		}
	}
	if t.class {
		return nil, errors.New("a [ without ]")
	}
	return syntax.Parse(t.out.String(), syntax.Perl)
}

// next translates the next character or escape.
func (t *translation) next() error {
	c := t.rest[0]
	switch {
	case c == '\\':
		return t.escape()
	case t.class && c == '[':
		t.out.WriteByte('\\') // which Go would take for the beginning of a named class
	case c == ']':
		t.class = false
	case !t.class && c == '[':
		inner := strings.TrimPrefix(t.rest[1:], "^")
		if strings.HasPrefix(inner, "]") {
			return errors.New("an empty class is not supported")
		}
		t.class, t.negated = true, len(inner) < len(t.rest)-1
	case !t.class && c == '.':
		if t.possible {
			t.out.WriteString(`[^\n]`)
		} else {
			t.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		}
		t.rest = t.rest[1:]
		return nil
	case !t.class && !t.within && (strings.HasPrefix(t.rest, "(?=") || strings.HasPrefix(t.rest, "(?!")):
		return t.assert()
	case !t.class && (strings.HasPrefix(t.rest, "(?<=") || strings.HasPrefix(t.rest, "(?<!")):
		return errors.New("lookbehinds are not supported") // Go would call them groups with wrong names
	case !t.class && strings.HasPrefix(t.rest, "(?"):
		flags := t.rest[2:]
		if flags = flags[:len(flags)-len(strings.TrimLeft(flags, "imsU-"))]; strings.ContainsAny(flags, "sU") {
			return fmt.Errorf("(?%s is not supported", flags)
		}
	}
	t.out.WriteByte(c)
	t.rest = t.rest[1:]
	return nil
}

// escape translates what begins with a backslash.
func (t *translation) escape() error {
	if len(t.rest) < 2 {
		return errors.New(`a \ at the end`)
	}
	c, rest := t.rest[1], t.rest[2:]
	out := t.rest[:2]
	switch {
	case classes[c|0x20].certain != nil:
		out = t.set(c)
	case c == 'b' && t.class:
		out = `\x{8}`
	case c == '0' && (rest == "" || rest[0] < '0' || rest[0] > '9'):
		out = `\x{0}`
	case c == 'c' && rest != "" && (rest[0]|0x20 >= 'a' && rest[0]|0x20 <= 'z'):
		out, rest = fmt.Sprintf(`\x{%x}`, rest[0]&0x1f), rest[1:]
	case c == 'u':
		if out, rest = unicodeEscape(rest); out == "" {
			return fmt.Errorf(`\u%.8s is not supported`, rest)
		}
	case c == 'x' && len(rest) >= 2 && strings.Trim(rest[:2], "0123456789abcdefABCDEF") == "":
		out, rest = `\x`+rest[:2], rest[2:]
	case strings.IndexByte("bBtnrfvpP", c) >= 0 || !alphanumeric(c):
	default:
		return fmt.Errorf("%s is not supported", out)
	}
	t.out.WriteString(out)
	t.rest = rest
	return nil
}

// unicodeEscape translates four digits or {…} after \u, unless they are no character but half of a surrogate pair.
func unicodeEscape(text string) (out, rest string) {
	digits, rest := text[:min(4, len(text))], text[min(4, len(text)):]
	if after, ok := strings.CutPrefix(text, "{"); ok {
		digits, rest, _ = strings.Cut(after, "}")
	} else if len(digits) < 4 {
		return "", text
	}
	if code, err := strconv.ParseUint(digits, 16, 32); err != nil || !utf8.ValidRune(rune(code)) || code > utf8.MaxRune {
		return "", text
	}
	return `\x{` + digits + `}`, rest
}

// set returns the characters of \d, \w and \s, or for upper case letters the others, as ranges for a class of Go. A class
// that is not negated has those that it certainly matches, and one that is negated those that it might match.
func (t *translation) set(c byte) string {
	is, upper := classes[c|0x20], c < 'a'
	set := is.certain
	if upper != (t.class && t.negated) != t.possible {
		set = is.possible
	}
	members := set()
	if upper {
		members = allRunes.without(members)
	}
	var out strings.Builder
	for i := 0; i < len(members); i += 2 {
		fmt.Fprintf(&out, `\x{%x}-\x{%x}`, members[i], members[i+1])
	}
	if t.class {
		return out.String()
	}
	return "[" + out.String() + "]"
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// contains is a JSON string in which a regular expression matches somewhere, of least to most characters.
func (b *builder) contains(text string, least, most int) ([]element, error) {
	t := translation{rest: text}
	re, err := t.parse()
	if err != nil {
		return nil, err
	}
	b.elements += (t.out.Len() + t.work) / 32 // classes of many ranges are work, too
	any := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
	re = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{any, re, any}}
	form, err := b.pattern(re, t.looks, true, least, most)
	return seq(lit(`"`), form, lit(`"`)), err
}
