package jinja

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// maxParseDepth is how deep statements and expressions may be nested in each other.
const maxParseDepth = 250

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body     []node
	literals []string // the texts and strings in it
}

// Parse reads a template.
func Parse(source string) (*Template, error) {
	segments, err := split(source)
	if err != nil {
		return nil, err
	}
	p := &parser{segments: segments}
	body, _, err := p.body("template")
	if err != nil {
		return nil, p.at(err)
	}
	return &Template{body, literals(segments)}, nil
}

// literals returns the texts outside of tags and the strings in tags.
func literals(segments []segment) (out []string) {
	for _, s := range segments {
		if s.tokens == nil {
			out = append(out, s.text)
		}
		for _, t := range s.tokens {
			if t.kind == stringToken {
				out = append(out, t.text)
			}
		}
	}
	return out
}

// Writes reports whether a text is part of a text or a string in the template.
func (t *Template) Writes(text string) bool {
	return slices.ContainsFunc(t.literals, func(s string) bool { return strings.Contains(s, text) })
}

// parser reads segments, and the tokens of the current segment.
type parser struct {
	segments []segment
	next     int // of segments
	tokens   []token
	depth    int
	loops    int
	uses     map[string]bool // of the macro that is being read
}

// at adds the line to an error.
func (p *parser) at(err error) error {
	if p.next == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", p.segments[p.next-1].line, err)
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxParseDepth {
		return fmt.Errorf("nested deeper than %d", maxParseDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// peek returns the next token of the tag.
func (p *parser) peek() token { return p.tokens[0] }

// advance consumes a token. The end token stays.
func (p *parser) advance() token {
	t := p.tokens[0]
	if t.kind != endToken {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) is(kind tokenKind, texts ...string) bool {
	t := p.peek()
	return t.kind == kind && slices.Contains(texts, t.text)
}

// accept consumes an operator if it is next.
func (p *parser) accept(operator string) bool {
	if !p.is(operatorToken, operator) {
		return false
	}
	p.advance()
	return true
}

// acceptWord consumes a word if it is next.
func (p *parser) acceptWord(word string) bool {
	if !p.is(nameToken, word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(operator string) error {
	if !p.accept(operator) {
		return fmt.Errorf("%q is missing before %v", operator, p.peek())
	}
	return nil
}

func (p *parser) name() (string, error) {
	if t := p.peek(); t.kind != nameToken {
		return "", fmt.Errorf("a name is missing before %v", t)
	}
	return p.advance().text, nil
}

func (p *parser) end() error {
	if t := p.peek(); t.kind != endToken {
		return fmt.Errorf("unexpected %v", t)
	}
	return nil
}

// body reads statements up to a tag that is one of ends, whose name it returns; the
// rest of that tag is in p.tokens. of names the statement that the body belongs to.
func (p *parser) body(of string, ends ...string) ([]node, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	var out []node
	for p.next < len(p.segments) {
		s := p.segments[p.next]
		p.next++
		if s.tokens == nil {
			out = append(out, node{s.line, textStatement{s.text}})
			continue
		}
		p.tokens = s.tokens
		if !s.block {
			value, err := p.tuple()
			if err == nil {
				err = p.end()
			}
			if err != nil {
				return nil, "", err
			}
			out = append(out, node{s.line, outputStatement{value}})
			continue
		}
		word, err := p.name()
		if err != nil {
			return nil, "", err
		}
		if slices.Contains(ends, word) {
			return out, word, nil
		}
		made, err := p.statement(word)
		if err != nil {
			return nil, "", err
		}
		out = append(out, node{s.line, made})
	}
	if len(ends) > 0 {
		return nil, "", fmt.Errorf("%s is not closed: %s is missing", of, ends[len(ends)-1])
	}
	return out, "", nil
}

// closed reads a body that has one end, and the end of its tag.
func (p *parser) closed(of string) ([]node, error) {
	body, _, err := p.body(of, "end"+of)
	if err == nil {
		p.acceptName(of)
		err = p.end()
	}
	return body, err
}

// acceptName allows {% endmacro name %} and the like to name what they close.
func (p *parser) acceptName(of string) {
	if (of == "macro" || of == "call") && p.peek().kind == nameToken {
		p.advance()
	}
}

// Render runs the template. It fails with the context's cause once that is done, with
// ErrLimit beyond a limit, and with PanicError where a bug of this package would end the
// program.
func (t *Template) Render(ctx context.Context, variables map[string]Value, limits Limits) (_ string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	r := newRender(ctx, variables, limits)
	if err := r.step(0); err != nil {
		return "", err
	}
	if err := r.run(t.body); err != nil {
		return "", err
	}
	return r.out.b.String(), nil
}

func newRender(ctx context.Context, variables map[string]Value, limits Limits) *render {
	r := &render{meter: &meter{ctx: ctx, limits: limits}, out: &output{}}
	for _, names := range []map[string]Value{globals(), variables, {}} {
		r.scope = &scope{names: names, parent: r.scope}
	}
	return r
}
