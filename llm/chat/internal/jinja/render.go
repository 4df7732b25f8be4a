package jinja

import (
	"errors"
	"fmt"
	"strings"
)

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// render is one rendering under way.
type render struct {
	*meter
	scope   *scope
	out     *output
	printed string // the output of a filter block, for its placeholder
}

// output is the destination of statements that print.
type output struct{ b strings.Builder }

// scope holds the variables of a block.
type scope struct {
	names  map[string]Value
	parent *scope
}

func (s *scope) get(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (r *render) set(name string, v Value) error {
	if _, known := r.scope.names[name]; !known {
		if err := r.take(bytesPerEntry); err != nil {
			return err
		}
	}
	r.scope.names[name] = v
	return nil
}

// inScope runs fn with variables of its own.
func (r *render) inScope(parent *scope, fn func() error) error {
	old := r.scope
	r.scope = &scope{names: map[string]Value{}, parent: parent}
	err := fn()
	r.scope = old
	return err
}

// capture returns what fn prints, in a scope of its own.
func (r *render) capture(parent *scope, fn func() error) (string, error) {
	old := r.out
	r.out = &output{}
	err := r.inScope(parent, fn)
	text := r.out.b.String()
	r.out = old
	return text, err
}

// run executes statements, and adds to an error the line where it happened.
func (r *render) run(body []node) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	for _, n := range body {
		err := r.step(1)
		if err == nil {
			err = n.execute(r)
		}
		if err != nil {
			return withLine(n.line, err)
		}
	}
	return nil
}

// lineError is an error with the line where it happened.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func withLine(line int, err error) error {
	var known *lineError
	if err == errBreak || err == errContinue || errors.As(err, &known) {
		return err
	}
	return &lineError{line, err}
}

// eval returns the value of an expression.
func (r *render) eval(e expression) (Value, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	if err := r.step(1); err != nil {
		return nil, err
	}
	return e.evaluate(r)
}

// print writes text to the output.
func (r *render) print(s string) error {
	if err := r.take(len(s)); err != nil {
		return err
	}
	if r.limits.Output > 0 && int64(r.out.b.Len())+int64(len(s)) > r.limits.Output {
		return fmt.Errorf("%w: text of more than %d bytes", ErrLimit, r.limits.Output)
	}
	r.out.b.WriteString(s)
	return nil
}

func (s textStatement) execute(r *render) error { return r.print(s.text) }

func (s outputStatement) execute(r *render) error {
	v, err := r.eval(s.value)
	if err != nil {
		return err
	}
	text, err := r.text(v)
	if err != nil {
		return err
	}
	return r.print(text)
}

func (s ifStatement) execute(r *render) error {
	for _, b := range s.branches {
		if b.condition != nil {
			v, err := r.eval(b.condition)
			if err != nil {
				return err
			}
			if !truth(v) {
				continue
			}
		}
		return r.run(b.body)
	}
	return nil
}

func (s setStatement) execute(r *render) error {
	v, err := r.eval(s.value)
	if err != nil {
		return err
	}
	return r.assign(s.target, v)
}

// assign sets a target to a value.
func (r *render) assign(t target, v Value) error {
	switch {
	case t.several != nil:
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.several) {
			return fmt.Errorf("%d values for %d variables", len(items), len(t.several))
		}
		for i, one := range t.several {
			if err := r.assign(one, items[i]); err != nil {
				return err
			}
		}
		return nil
	case t.attribute != "":
		of, _ := r.scope.get(t.name)
		ns, ok := of.(namespace)
		if !ok {
			return fmt.Errorf("cannot set an attribute of %s, which is no namespace", t.name)
		}
		if err := r.take(bytesPerEntry); err != nil {
			return err
		}
		ns.Set(t.attribute, v)
		return nil
	}
	return r.set(t.name, v)
}

func (s setBlock) execute(r *render) error {
	text, err := r.capture(r.scope, func() error { return r.run(s.body) })
	if err != nil {
		return err
	}
	v, err := r.filtered(s.filters, text)
	if err != nil {
		return err
	}
	return r.assign(s.target, v)
}

func (s filterStatement) execute(r *render) error {
	text, err := r.capture(r.scope, func() error { return r.run(s.body) })
	if err != nil {
		return err
	}
	v, err := r.filtered(s.filters, text)
	if err != nil {
		return err
	}
	if text, err = r.text(v); err != nil {
		return err
	}
	return r.print(text)
}

// filtered applies a block's filters to its output.
func (r *render) filtered(filters expression, text string) (Value, error) {
	old := r.printed
	r.printed = text
	v, err := r.eval(filters)
	r.printed = old
	return v, err
}

func (placeholder) evaluate(r *render) (Value, error) { return r.printed, nil }

func (s withStatement) execute(r *render) error {
	values, err := r.all(s.values)
	if err != nil {
		return err
	}
	return r.inScope(r.scope, func() error {
		for i, name := range s.names {
			if err := r.assign(name, values[i]); err != nil {
				return err
			}
		}
		return r.run(s.body)
	})
}

func (s groupStatement) execute(r *render) error {
	return r.inScope(r.scope, func() error { return r.run(s.body) })
}

func (s jumpStatement) execute(*render) error { return s.jump }
