package jinja

// expression reads an expression, with an inline if.
func (p *parser) expression() (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	for err == nil && p.acceptWord("if") {
		c := &conditional{yes: e}
		if c.condition, err = p.or(); err != nil {
			break
		}
		if p.acceptWord("else") {
			c.no, err = p.expression()
		}
		e = c
	}
	return e, err
}

// tuple reads an expression, or several with commas, which are a tuple.
func (p *parser) tuple() (expression, error) { return p.tupleOf(p.expression) }

func (p *parser) tupleOf(item func() (expression, error)) (expression, error) {
	first, err := item()
	if err != nil || !p.is(operatorToken, ",") {
		return first, err
	}
	list := &listExpression{items: []expression{first}, tuple: true}
	for p.accept(",") {
		if t := p.peek(); t.kind == endToken || p.is(operatorToken, ")") {
			break
		}
		next, err := item()
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, next)
	}
	return list, nil
}

func (p *parser) or() (expression, error) { return p.words("or", p.and) }

func (p *parser) and() (expression, error) { return p.words("and", p.not) }

// words reads operands with a word between them.
func (p *parser) words(word string, operand func() (expression, error)) (expression, error) {
	left, err := operand()
	for err == nil && p.acceptWord(word) {
		b := &binary{operator: word, left: left}
		b.right, err = operand()
		left = b
	}
	return left, err
}

func (p *parser) not() (expression, error) {
	if !p.acceptWord("not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	operand, err := p.not()
	return &unary{"not", operand}, err
}

func (p *parser) comparison() (expression, error) {
	first, err := p.sum()
	c := &comparison{first: first}
	for err == nil {
		op := ""
		switch {
		case p.is(operatorToken, "==", "!=", "<", "<=", ">", ">="):
			op = p.advance().text
		case p.acceptWord("in"):
			op = "in"
		case p.is(nameToken, "not") && p.tokens[1].kind == nameToken && p.tokens[1].text == "in":
			p.advance()
			p.advance()
			op = "not in"
		case len(c.operators) == 0:
			return first, nil
		default:
			return c, nil
		}
		var operand expression
		operand, err = p.sum()
		c.operators, c.operands = append(c.operators, op), append(c.operands, operand)
	}
	return nil, err
}

func (p *parser) sum() (expression, error) { return p.binaries(p.concatenation, "+", "-") }

func (p *parser) concatenation() (expression, error) { return p.binaries(p.product, "~") }

func (p *parser) product() (expression, error) { return p.binaries(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expression, error) {
	return p.binaries(func() (expression, error) { return p.unary(true) }, "**")
}

func (p *parser) binaries(operand func() (expression, error), operators ...string) (expression, error) {
	left, err := operand()
	for err == nil && p.is(operatorToken, operators...) {
		b := &binary{operator: p.advance().text, left: left}
		b.right, err = operand()
		left = b
	}
	return left, err
}

// unary reads a sign and what follows; filters bind to the whole.
func (p *parser) unary(filters bool) (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var e expression
	var err error
	if p.is(operatorToken, "-", "+") {
		op := p.advance().text
		operand, failed := p.unary(false)
		e, err = &unary{op, operand}, failed
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filters(e)
	}
	return e, err
}
