package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// segment is a piece of a template: text as it is printed, or the inside of a tag.
type segment struct {
	line   int
	text   string  // where tokens is nil
	tokens []token // of {% … %} or {{ … }}, with an end token
	block  bool    // {% … %}
}

// token is one word of a tag.
type token struct {
	kind  tokenKind
	text  string // name, operator, or the value of a string
	value Value  // of a number
}

type tokenKind int

const (
	endToken tokenKind = iota // of the tag
	nameToken
	stringToken
	numberToken
	operatorToken
)

// String names a token in messages.
func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end of the tag"
	case stringToken:
		return "a string"
	}
	return fmt.Sprintf("%.40q", t.text)
}

// operators, longest first.
var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "|", ".", ",", ":", "=", "<", ">", "(", ")", "[", "]", "{", "}"}

// inside splits the inside of a tag into tokens.
func (l *lexer) inside(t tag) ([]token, error) {
	var out []token
	var brackets []byte
	for l.pos < len(l.src) {
		if len(brackets) == 0 && l.closing(t, t.block) {
			return append(out, token{kind: endToken}), nil
		}
		c := l.src[l.pos]
		r, size := utf8.DecodeRuneInString(l.src[l.pos:])
		switch {
		case isSpace(r):
			l.pos += size
			continue
		case c == '\'' || c == '"':
			s, err := l.stringLiteral(c)
			if err != nil {
				return nil, err
			}
			out = append(out, token{kind: stringToken, text: s})
			continue
		case c >= '0' && c <= '9':
			n, err := l.number(len(out) > 0 && out[len(out)-1] == token{kind: operatorToken, text: "."})
			if err != nil {
				return nil, err
			}
			out = append(out, n)
			continue
		case isName(c):
			out = append(out, token{kind: nameToken, text: l.take(isName)})
			continue
		case strings.IndexByte("([{", c) >= 0:
			if brackets = append(brackets, c); len(brackets) > maxNesting {
				return nil, fmt.Errorf("brackets nested deeper than %d", maxNesting)
			}
		case strings.IndexByte(")]}", c) >= 0:
			if len(brackets) == 0 || !matches(brackets[len(brackets)-1], c) {
				return nil, fmt.Errorf("unexpected %q", c)
			}
			brackets = brackets[:len(brackets)-1]
		}
		op, err := l.operator()
		if err != nil {
			return nil, err
		}
		out = append(out, token{kind: operatorToken, text: op})
	}
	return nil, fmt.Errorf("%s is not closed", t.open)
}

func matches(open, shut byte) bool {
	return open == '(' && shut == ')' || open == '[' && shut == ']' || open == '{' && shut == '}'
}

func (l *lexer) operator() (string, error) {
	for _, op := range operators {
		if strings.HasPrefix(l.src[l.pos:], op) {
			l.pos += len(op)
			return op, nil
		}
	}
	return "", fmt.Errorf("unexpected %q", []rune(l.src[l.pos:min(l.pos+4, len(l.src))])[0])
}

// take consumes the bytes that belong.
func (l *lexer) take(belongs func(byte) bool) string {
	start := l.pos
	for l.pos < len(l.src) && belongs(l.src[l.pos]) {
		l.pos++
	}
	return l.src[start:l.pos]
}

func isName(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number consumes a number. After a dot it is an index, so that a.0.1 is not a
// float.
func (l *lexer) number(index bool) (token, error) {
	start := l.pos
	digits := func(c byte) bool { return isDigit(c) || c == '_' }
	l.take(digits)
	rest := l.src[l.pos:]
	switch {
	case index:
	case l.pos == start+1 && l.src[start] == '0' && rest != "" && strings.IndexByte("xXoObB", rest[0]) >= 0:
		l.take(isName)
	default:
		if len(rest) > 1 && rest[0] == '.' && isDigit(rest[1]) {
			l.pos++
			l.take(digits)
		}
		if rest = l.src[l.pos:]; rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
			sign := 1
			if len(rest) > 1 && (rest[1] == '+' || rest[1] == '-') {
				sign = 2
			}
			if len(rest) > sign && isDigit(rest[sign]) {
				l.pos += sign
				l.take(digits)
			}
		}
	}
	text := l.src[start:l.pos]
	if l.pos < len(l.src) && isName(l.src[l.pos]) {
		return token{}, fmt.Errorf("%.40q is not a number", text+l.src[l.pos:l.pos+1])
	}
	v, err := parseNumber(text)
	return token{kind: numberToken, text: text, value: v}, err
}

func parseNumber(text string) (Value, error) {
	plain := strings.ReplaceAll(text, "_", "")
	if trimmed := strings.TrimLeft(plain, "0"); trimmed != "" && isDigit(trimmed[0]) {
		plain = trimmed // no octal numbers
	}
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return n, nil
	}
	if strings.ContainsAny(plain, ".eE") && !strings.HasPrefix(plain, "0x") {
		if f, err := strconv.ParseFloat(plain, 64); err == nil || f != 0 {
			return f, nil
		}
	}
	return nil, fmt.Errorf("%.40s is not a number of 64 bits", text)
}

func (l *lexer) spaces() {
	l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], isSpace))
}
