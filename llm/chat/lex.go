package chat

import (
	"fmt"
	"strings"
	"unicode"
)

// Limits on a template.
const (
	maxSource  = 1 << 20 // bytes; real templates stay below 100 KB
	maxNesting = 100     // brackets inside brackets
)

// Names that the rewritten template uses and no template should.
const (
	literalPrefix = "kompute_literal_"
	enterMacro    = "kompute_enter"
)

// lexer rewrites a template for the template engine. It settles white space
// control as Jinja's own lexer does, which the engine gets wrong where tags
// follow one another, and moves all text and all string literals into variables,
// so that their contents cannot confuse the engine's parser. What remains of
//
//	{%- if a == 'x' %}
//	yes {{- b }}
//
// is {% if a == kompute_literal_0 %}{{ kompute_literal_1 }}{{ b }}, with
// kompute_literal_0 = "x" and kompute_literal_1 = "yes".
type lexer struct {
	src      string
	pos      int
	out      strings.Builder
	literals []string
}

// tag is one kind of {…}.
type tag struct {
	open, close string
	block       bool // trim_blocks and lstrip_blocks apply
}

var (
	statement  = tag{"{%", "%}", true}
	comment    = tag{"{#", "#}", true}
	expression = tag{"{{", "}}", false}
)

// rewrite returns the template without white space control, and the literals.
func rewrite(source string) (string, []string, error) {
	if len(source) > maxSource {
		return "", nil, fmt.Errorf("template of %d bytes, more than %d", len(source), maxSource)
	}
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{src: strings.TrimSuffix(source, "\n")}
	for l.pos < len(l.src) {
		if err := l.step(); err != nil {
			return "", nil, fmt.Errorf("line %d: %w", 1+strings.Count(l.src[:l.pos], "\n"), err)
		}
	}
	return l.out.String(), l.literals, nil
}

// hold stores a string and returns the variable that stands for it.
func (l *lexer) hold(s string) string {
	l.literals = append(l.literals, s)
	return fmt.Sprintf("%s%d", literalPrefix, len(l.literals)-1)
}

func (l *lexer) text(s string) {
	if s != "" {
		l.out.WriteString("{{ " + l.hold(s) + " }}")
	}
}

// step handles text up to the next tag, and the tag.
func (l *lexer) step() error {
	start := l.pos
	t, at := l.nextTag()
	text := l.src[start:at]
	if at == len(l.src) {
		l.pos = at
		l.text(text)
		return nil
	}
	l.pos = at + len(t.open)
	switch sign := l.sign(); {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign == 0 && t.block:
		text = stripLine(text, start == 0 || l.src[start-1] == '\n')
	}
	l.text(text)
	switch {
	case t == comment:
		return l.comment()
	case t == statement && l.raw():
		return l.rawText()
	}
	return l.tag(t)
}

// nextTag returns the next tag and where it starts, or the end of the source.
func (l *lexer) nextTag() (tag, int) {
	for i := l.pos; i+1 < len(l.src); i++ {
		switch l.src[i : i+2] {
		case "{%":
			return statement, i
		case "{{":
			return expression, i
		case "{#":
			return comment, i
		}
	}
	return tag{}, len(l.src)
}

// sign consumes a - or + and returns it, else 0.
func (l *lexer) sign() byte {
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
		return l.src[l.pos-1]
	}
	return 0
}

// stripLine is lstrip_blocks: it drops the indentation of a tag that is first on
// its line.
func stripLine(text string, lineStart bool) string {
	at := strings.LastIndexByte(text, '\n') + 1
	if (at > 0 || lineStart) && strings.TrimSpace(text[at:]) == "" {
		return text[:at]
	}
	return text
}

// closing reports whether the tag ends at l.pos, and moves behind it and the
// white space that goes with it.
func (l *lexer) closing(t tag, trimBlocks bool) bool {
	rest := l.src[l.pos:]
	sign := byte(0)
	if rest != "" && (rest[0] == '-' || rest[0] == '+' && t.block) {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, t.close) {
		return false
	}
	rest = rest[len(t.close):]
	switch {
	case sign == '-':
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	case sign == 0 && trimBlocks:
		rest = strings.TrimPrefix(rest, "\n")
	}
	l.pos = len(l.src) - len(rest)
	return true
}

func (l *lexer) comment() error {
	for ; l.pos < len(l.src); l.pos++ {
		if l.closing(comment, true) {
			return nil
		}
	}
	return fmt.Errorf("comment is not closed")
}

// raw reports whether the statement at l.pos is raw, and moves behind it.
func (l *lexer) raw() bool { return l.word("raw", false) }

// word consumes one word and the end of its statement, if that is what follows.
func (l *lexer) word(word string, trimBlocks bool) bool {
	start := l.pos
	l.spaces()
	if strings.HasPrefix(l.src[l.pos:], word) {
		l.pos += len(word)
		l.spaces()
		if l.closing(statement, trimBlocks) {
			return true
		}
	}
	l.pos = start
	return false
}

func (l *lexer) spaces() {
	l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], unicode.IsSpace))
}

// rawText takes everything up to endraw as text.
func (l *lexer) rawText() error {
	start := l.pos
	for at := start; at < len(l.src); at++ {
		if !strings.HasPrefix(l.src[at:], "{%") {
			continue
		}
		l.pos = at + 2
		text, sign := l.src[start:at], l.sign()
		if !l.word("endraw", true) {
			continue
		}
		if sign == '-' {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		} else if sign == 0 {
			text = stripLine(text, l.src[start-1] == '\n')
		}
		l.text(text)
		return nil
	}
	return fmt.Errorf("raw block is not closed")
}

// tag copies the inside of a statement or an expression.
func (l *lexer) tag(t tag) error {
	var code strings.Builder
	var brackets []byte
	for l.pos < len(l.src) {
		if len(brackets) == 0 && l.closing(t, t.block) {
			l.out.WriteString(t.open + " " + guardMacro(t, code.String()) + " " + t.close)
			return nil
		}
		c := l.src[l.pos]
		switch {
		case c == '\'' || c == '"':
			s, err := l.stringLiteral(c)
			if err != nil {
				return err
			}
			code.WriteString(" " + l.hold(s) + " ")
			continue
		case strings.IndexByte("([{", c) >= 0:
			if brackets = append(brackets, c); len(brackets) > maxNesting {
				return fmt.Errorf("brackets nested deeper than %d", maxNesting)
			}
		case strings.IndexByte(")]}", c) >= 0:
			if len(brackets) == 0 || !matches(brackets[len(brackets)-1], c) {
				return fmt.Errorf("unexpected %q", c)
			}
			brackets = brackets[:len(brackets)-1]
			code.WriteByte(' ') // keeps "}}" and "%}" from ending the tag early
		case isName(c):
			code.WriteString(l.name(code.String()))
			continue
		case !isCode(c):
			return fmt.Errorf("unexpected %q", c)
		}
		code.WriteByte(c)
		l.pos++
	}
	return fmt.Errorf("%s is not closed", t.open)
}

func matches(open, close byte) bool {
	return open == '(' && close == ')' || open == '[' && close == ']' || open == '{' && close == '}'
}

// name consumes a name or a number. A filter that this package does itself gets
// another name.
func (l *lexer) name(before string) string {
	start := l.pos
	for l.pos < len(l.src) && isName(l.src[l.pos]) {
		l.pos++
	}
	name := l.src[start:l.pos]
	if _, own := ownFilters[name]; own && strings.HasSuffix(strings.TrimRight(before, " \t\n"), "|") {
		return filterPrefix + name
	}
	return name
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isCode reports whether c can stand in Jinja code outside of names and strings.
func isCode(c byte) bool { return strings.IndexByte(" \t\n+-*/%~|.,:=!<>", c) >= 0 }

// guardMacro gives a macro one more parameter, whose default value counts the
// calls: nothing else stops a macro that calls itself for ever.
func guardMacro(t tag, code string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(code), "macro")
	end := strings.LastIndexByte(rest, ')')
	if t != statement || !ok || end < 0 || strings.TrimLeftFunc(rest, unicode.IsSpace) == rest {
		return code
	}
	params := strings.TrimSpace(rest[:end])
	if !strings.HasSuffix(params, "(") {
		params += ","
	}
	return "macro " + params + enterMacro + "=" + enterMacro + "()" + rest[end:]
}
