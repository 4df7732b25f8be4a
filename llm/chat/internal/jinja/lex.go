package jinja

import (
	"fmt"
	"strings"
)

// Limits on a template.
const (
	MaxSource  = 1 << 20 // bytes; real templates stay below 100 KB
	maxNesting = 100     // brackets inside brackets
)

// lexer splits a template into segments. It applies white space control, as Jinja's
// own lexer does.
type lexer struct {
	src      string
	pos      int
	segments []segment
}

// tag is one kind of {…}.
type tag struct {
	open, close string
	block       bool // trim_blocks and lstrip_blocks apply
}

var (
	blockTag   = tag{"{%", "%}", true}
	commentTag = tag{"{#", "#}", true}
	outputTag  = tag{"{{", "}}", false}
)

// split returns the segments of a template.
func split(source string) ([]segment, error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("template of %d bytes, more than %d", len(source), MaxSource)
	}
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{src: strings.TrimSuffix(source, "\n")}
	line, counted := 1, 0
	for l.pos < len(l.src) {
		line += strings.Count(l.src[counted:l.pos], "\n")
		counted = l.pos
		known := len(l.segments)
		if err := l.step(); err != nil {
			return nil, fmt.Errorf("line %d: %w", line+strings.Count(l.src[counted:l.pos], "\n"), err)
		}
		for i := known; i < len(l.segments); i++ {
			l.segments[i].line = line
		}
	}
	return l.segments, nil
}

func (l *lexer) text(s string) {
	if s != "" {
		l.segments = append(l.segments, segment{text: s})
	}
}

// step handles the text up to the next tag, and the tag.
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
		text = strings.TrimRightFunc(text, isSpace)
	case sign == 0 && t.block:
		text = stripLine(text, start == 0 || l.src[start-1] == '\n')
	}
	l.text(text)
	switch {
	case t == commentTag:
		return l.comment()
	case t == blockTag && l.raw():
		return l.rawText()
	}
	tokens, err := l.inside(t)
	l.segments = append(l.segments, segment{tokens: tokens, block: t.block})
	return err
}

// nextTag returns the next tag and where it starts, or the end of the source.
func (l *lexer) nextTag() (tag, int) {
	for i := l.pos; i+1 < len(l.src); i++ {
		switch l.src[i : i+2] {
		case "{%":
			return blockTag, i
		case "{{":
			return outputTag, i
		case "{#":
			return commentTag, i
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
	if (at > 0 || lineStart) && strings.TrimFunc(text[at:], isSpace) == "" {
		return text[:at]
	}
	return text
}

// closing reports whether the tag ends at l.pos, and moves past it and the
// white space that is removed with it.
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
		rest = strings.TrimLeftFunc(rest, isSpace)
	case sign == 0 && trimBlocks:
		rest = strings.TrimPrefix(rest, "\n")
	}
	l.pos = len(l.src) - len(rest)
	return true
}

func (l *lexer) comment() error {
	for ; l.pos < len(l.src); l.pos++ {
		if l.closing(commentTag, true) {
			return nil
		}
	}
	return fmt.Errorf("comment is not closed")
}

// raw reports whether the statement at l.pos is raw, and moves past it.
func (l *lexer) raw() bool { return l.word("raw", false) }

// word consumes one given word and the end of its statement, if these follow.
func (l *lexer) word(word string, trimBlocks bool) bool {
	start := l.pos
	l.spaces()
	if strings.HasPrefix(l.src[l.pos:], word) {
		l.pos += len(word)
		l.spaces()
		if l.closing(blockTag, trimBlocks) {
			return true
		}
	}
	l.pos = start
	return false
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
			text = strings.TrimRightFunc(text, isSpace)
		} else if sign == 0 {
			text = stripLine(text, l.src[start-1] == '\n')
		}
		l.text(text)
		return nil
	}
	return fmt.Errorf("raw block is not closed")
}
