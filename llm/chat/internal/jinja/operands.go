package jinja

import (
	"fmt"
	"strings"
)

// constants are names that stand for a value.
var constants = map[string]Value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

func (p *parser) primary() (expression, error) {
	t := p.peek()
	switch {
	case t.kind == nameToken:
		p.advance()
		if v, ok := constants[t.text]; ok {
			return &literal{v}, nil
		}
		if p.uses != nil && (t.text == "caller" || t.text == "varargs" || t.text == "kwargs") {
			p.uses[t.text] = true
		}
		return &nameExpression{t.text}, nil
	case t.kind == stringToken:
		var b strings.Builder
		for p.peek().kind == stringToken {
			b.WriteString(p.advance().text)
		}
		return &literal{b.String()}, nil
	case t.kind == numberToken:
		return &literal{p.advance().value}, nil
	case p.accept("("):
		if p.accept(")") {
			return &listExpression{tuple: true}, nil
		}
		e, err := p.tuple()
		if err == nil {
			err = p.expect(")")
		}
		return e, err
	case p.accept("["):
		items, err := p.items("]")
		return &listExpression{items: items}, err
	case p.accept("{"):
		return p.dict()
	}
	return nil, fmt.Errorf("unexpected %v", t)
}

// items reads expressions separated by commas, up to a bracket.
func (p *parser) items(shut string) ([]expression, error) {
	var out []expression
	for !p.accept(shut) {
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.accept(shut) {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

func (p *parser) dict() (expression, error) {
	d := &dictExpression{}
	for !p.accept("}") {
		if len(d.keys) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.accept("}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expect(":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(e expression) (expression, error) {
	return p.chain(e, func(e expression) (expression, error) {
		switch {
		case p.accept("."):
			return p.attribute(e)
		case p.accept("["):
			return p.subscript(e)
		}
		return nil, nil
	})
}

// chain reads calls, and whatever next reads, one after another, for as long as
// there are any. next returns nil if it finds nothing.
func (p *parser) chain(e expression, next func(of expression) (expression, error)) (expression, error) {
	for {
		var longer expression
		var err error
		if p.is(operatorToken, "(") {
			c := &callExpression{callee: e}
			c.arguments, err = p.arguments()
			longer = c
		} else {
			longer, err = next(e)
		}
		switch {
		case err != nil:
			return nil, err
		case longer == nil:
			return e, nil
		}
		e = longer
	}
}

func (p *parser) attribute(of expression) (expression, error) {
	t := p.advance()
	switch t.kind {
	case nameToken:
		return &attribute{of, t.text}, nil
	case numberToken:
		return &subscript{of, &literal{t.value}}, nil
	}
	return nil, fmt.Errorf("a name is missing before %v", t)
}

func (p *parser) subscript(of expression) (expression, error) {
	var parts [3]expression
	n, colons := 0, 0
	for !p.accept("]") {
		if p.accept(":") {
			if colons++; colons > 2 {
				return nil, fmt.Errorf("too many colons in a slice")
			}
			n = colons
			continue
		}
		if parts[n] != nil {
			return nil, fmt.Errorf("unexpected %v in a subscript", p.peek())
		}
		var err error
		if parts[n], err = p.expression(); err != nil {
			return nil, err
		}
	}
	switch {
	case colons > 0:
		return &slicing{of, parts[0], parts[1], parts[2]}, nil
	case parts[0] == nil:
		return nil, fmt.Errorf("an empty subscript")
	}
	return &subscript{of, parts[0]}, nil
}

// arguments reads the arguments of a call, with their brackets.
func (p *parser) arguments() (arguments, error) {
	var a arguments
	if err := p.expect("("); err != nil {
		return a, err
	}
	for first := true; !p.accept(")"); first = false {
		if !first {
			if err := p.expect(","); err != nil {
				return a, err
			}
			if p.accept(")") {
				break
			}
		}
		if err := p.argument(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *parser) argument(a *arguments) error {
	var err error
	switch {
	case p.accept("**"):
		a.spreadDict, err = p.expression()
	case p.accept("*"):
		a.spread, err = p.expression()
	case p.peek().kind == nameToken && p.tokens[1] == token{kind: operatorToken, text: "="}:
		one := parameter{name: p.advance().text}
		p.advance()
		one.value, err = p.expression()
		a.named = append(a.named, one)
	default:
		if len(a.named) > 0 || a.spread != nil || a.spreadDict != nil {
			return fmt.Errorf("an argument by position after one by name")
		}
		var e expression
		e, err = p.expression()
		a.positional = append(a.positional, e)
	}
	return err
}

// filters reads the filters, tests and calls that follow an expression.
func (p *parser) filters(e expression) (expression, error) {
	return p.chain(e, func(e expression) (expression, error) {
		switch {
		case p.accept("|"):
			return p.filter(e)
		case p.acceptWord("is"):
			return p.test(e)
		}
		return nil, nil
	})
}

func (p *parser) filter(of expression) (expression, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	f := &filterExpression{of: of, name: name, call: filters[name]}
	if f.call == nil {
		return nil, fmt.Errorf("there is no filter %q", name)
	}
	if p.is(operatorToken, "(") {
		f.arguments, err = p.arguments()
	}
	return f, err
}

func (p *parser) test(of expression) (expression, error) {
	t := &testExpression{of: of, negated: p.acceptWord("not")}
	var err error
	if t.name, err = p.name(); err != nil {
		return nil, err
	}
	if t.call = tests[t.name]; t.call == nil {
		return nil, fmt.Errorf("there is no test %q", t.name)
	}
	next := p.peek()
	switch {
	case p.is(operatorToken, "("):
		t.arguments, err = p.arguments()
	case next.kind == stringToken || next.kind == numberToken || p.is(operatorToken, "[", "{") ||
		next.kind == nameToken && !p.is(nameToken, "else", "or", "and", "if", "is", "in", "not", "recursive"):
		var argument expression
		if argument, err = p.primary(); err == nil {
			argument, err = p.postfix(argument)
		}
		t.positional = []expression{argument}
	}
	return t, err
}
