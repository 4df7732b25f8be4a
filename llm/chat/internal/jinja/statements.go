package jinja

import "fmt"

// statement reads the rest of a statement that begins with word.
func (p *parser) statement(word string) (statement, error) {
	switch word {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "macro":
		return p.macroStatement()
	case "call":
		return p.callStatement()
	case "filter":
		filters, err := p.blockFilters()
		if err != nil {
			return nil, err
		}
		body, err := p.closed("filter")
		return filterStatement{filters, body}, err
	case "with":
		return p.withStatement()
	case "generation":
		if err := p.end(); err != nil {
			return nil, err
		}
		body, err := p.closed("generation")
		return groupStatement{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, fmt.Errorf("%s outside of a loop", word)
		}
		jump := errBreak
		if word == "continue" {
			jump = errContinue
		}
		return jumpStatement{jump}, p.end()
	}
	return nil, fmt.Errorf("unknown statement %q", word)
}

func (p *parser) ifStatement() (statement, error) {
	var s ifStatement
	for word := "if"; word != "endif"; {
		var b branch
		var err error
		if word != "else" {
			if b.condition, err = p.tuple(); err != nil {
				return nil, err
			}
		}
		if err := p.end(); err != nil {
			return nil, err
		}
		ends := []string{"elif", "else", "endif"}
		if word == "else" {
			ends = ends[2:]
		}
		if b.body, word, err = p.body("if", ends...); err != nil {
			return nil, err
		}
		s.branches = append(s.branches, b)
	}
	return s, p.end()
}

func (p *parser) forStatement() (statement, error) {
	var s forStatement
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if !p.acceptWord("in") {
		return nil, fmt.Errorf("for: in is missing before %v", p.peek())
	}
	if s.items, err = p.tupleOf(p.or); err != nil {
		return nil, err
	}
	if p.acceptWord("if") {
		if s.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.acceptWord("recursive")
	if err = p.end(); err != nil {
		return nil, err
	}
	p.loops++
	var word string
	s.body, word, err = p.body("for", "else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	if word == "else" {
		if err = p.end(); err != nil {
			return nil, err
		}
		s.otherwise, _, err = p.body("for", "endfor")
		if err != nil {
			return nil, err
		}
	}
	return s, p.end()
}

// target reads the target of an assignment.
func (p *parser) target(attributes bool) (target, error) {
	several := []target{}
	for {
		t, err := p.oneTarget(attributes)
		if err != nil {
			return t, err
		}
		if !p.is(operatorToken, ",") {
			if len(several) == 0 {
				return t, nil
			}
			return target{several: append(several, t)}, nil
		}
		p.advance()
		several = append(several, t)
		if p.peek().kind != nameToken && !p.is(operatorToken, "(") || p.is(nameToken, "in") {
			return target{several: several}, nil
		}
	}
}

func (p *parser) oneTarget(attributes bool) (target, error) {
	if p.accept("(") {
		if err := p.enter(); err != nil {
			return target{}, err
		}
		defer p.leave()
		t, err := p.target(attributes)
		if err == nil {
			err = p.expect(")")
		}
		return t, err
	}
	name, err := p.name()
	if err != nil {
		return target{}, err
	}
	if _, reserved := constants[name]; reserved {
		return target{}, fmt.Errorf("cannot assign to %q", name)
	}
	t := target{name: name}
	if attributes && p.accept(".") {
		t.attribute, err = p.name()
	}
	return t, err
}

func (p *parser) setStatement() (statement, error) {
	t, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.accept("=") {
		value, err := p.tuple()
		if err != nil {
			return nil, err
		}
		return setStatement{t, value}, p.end()
	}
	filters, err := p.filters(placeholder{})
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	body, err := p.closed("set")
	return setBlock{t, filters, body}, err
}

// blockFilters reads the filters of a filter block.
func (p *parser) blockFilters() (expression, error) {
	first, err := p.filter(placeholder{})
	if err != nil {
		return nil, err
	}
	filters, err := p.filters(first)
	if err != nil {
		return nil, err
	}
	return filters, p.end()
}

// macroBody reads the body of a macro. A loop around the definition is not the body's own.
func (p *parser) macroBody(m *macro, of string) error {
	if err := p.end(); err != nil {
		return err
	}
	loops, uses := p.loops, p.uses
	m.uses = map[string]bool{}
	p.loops, p.uses = 0, m.uses
	var err error
	m.body, err = p.closed(of)
	p.loops, p.uses = loops, uses
	return err
}

func (p *parser) macroStatement() (statement, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	m := &macro{name: name}
	if m.parameters, err = p.parameters(); err != nil {
		return nil, err
	}
	return macroStatement{m}, p.macroBody(m, "macro")
}

// parameters reads the parameters of a macro, with their brackets.
func (p *parser) parameters() ([]parameter, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var out []parameter
	for !p.accept(")") {
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
			if p.accept(")") {
				break
			}
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		one := parameter{name: name}
		if p.accept("=") {
			if one.value, err = p.expression(); err != nil {
				return nil, err
			}
		} else if len(out) > 0 && out[len(out)-1].value != nil {
			return nil, fmt.Errorf("parameter %s needs a default, as the one before it has one", name)
		}
		out = append(out, one)
	}
	return out, nil
}

func (p *parser) callStatement() (statement, error) {
	caller := &macro{name: "caller", ofCall: true}
	var err error
	if p.is(operatorToken, "(") {
		if caller.parameters, err = p.parameters(); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpression)
	if !ok {
		return nil, fmt.Errorf("call: not a call")
	}
	return callStatement{caller, call}, p.macroBody(caller, "call")
}

func (p *parser) withStatement() (statement, error) {
	var s withStatement
	for p.peek().kind != endToken {
		if len(s.names) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		t, err := p.oneTarget(false)
		if err == nil {
			err = p.expect("=")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.names, s.values = append(s.names, t), append(s.values, value)
	}
	var err error
	s.body, err = p.closed("with")
	return s, err
}
