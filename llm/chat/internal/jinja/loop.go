package jinja

import (
	"errors"
	"fmt"
	"slices"
)

// loop is the variable of that name in a for statement.
type loop struct {
	r      *render
	of     forStatement
	outer  *scope // of the statement
	items  []Value
	at     int
	depth  int // of recursion, from 0
	before []Value
	any    bool // changed has been called
}

func (l *loop) kind() string { return "LoopContext" }

func (l *loop) attribute(name string) (Value, bool) {
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(len(l.items) - l.at), true
	case "revindex0":
		return int64(len(l.items) - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == len(l.items)-1, true
	case "length":
		return int64(len(l.items)), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		return l.neighbour(-1, "previtem"), true
	case "nextitem":
		return l.neighbour(1, "nextitem"), true
	case "cycle":
		return &Function{Name: "cycle", Call: l.cycle}, true
	case "changed":
		return &Function{Name: "changed", Call: l.changed}, true
	}
	return nil, false
}

func (l *loop) neighbour(by int, missing string) Value {
	if i := l.at + by; i >= 0 && i < len(l.items) {
		return l.items[i]
	}
	return Undefined{name: missing}
}

func (l *loop) cycle(c *Call) (Value, error) {
	if len(c.positional) == 0 {
		return nil, fmt.Errorf("cycle without values")
	}
	return c.positional[l.at%len(c.positional)], nil
}

func (l *loop) changed(c *Call) (Value, error) {
	same := l.any && len(l.before) == len(c.positional)
	for i := 0; same && i < len(l.before); i++ {
		var err error
		if same, err = c.equal(l.before[i], c.positional[i]); err != nil {
			return nil, err
		}
	}
	l.before, l.any = c.positional, true
	return !same, nil
}

// call is loop(items) of a recursive loop.
func (l *loop) call(c *Call) (Value, error) {
	if !l.of.recursive || len(c.positional) != 1 || len(c.named) > 0 {
		return nil, fmt.Errorf("loop can be called only in a recursive loop, with what to loop over")
	}
	return l.r.capture(l.outer, func() error { return l.of.over(l.r, c.positional[0], l.depth+1) })
}

func (s forStatement) execute(r *render) error {
	items, err := r.eval(s.items)
	if err != nil {
		return err
	}
	return s.over(r, items, 0)
}

// over runs the loop over the items of a value, and then its else unless an iteration
// reached the end of the body.
func (s forStatement) over(r *render, over Value, depth int) error {
	items, err := r.iterate(over)
	if err != nil {
		return err
	}
	if s.filter != nil {
		if items, err = s.filtered(r, items); err != nil {
			return err
		}
	}
	l := &loop{r: r, of: s, outer: r.scope, items: items, depth: depth}
	whole, err := l.run()
	if err != nil || whole {
		return err
	}
	return r.inScope(r.scope, func() error { return r.run(s.otherwise) })
}

// run runs the body for each item. whole: at least one iteration reached the end of the body.
func (l *loop) run() (whole bool, err error) {
	r, s := l.r, l.of
	for l.at = range l.items {
		err := r.inScope(l.outer, func() error {
			if err := r.set("loop", l); err != nil {
				return err
			}
			if err := r.assign(s.target, l.items[l.at]); err != nil {
				return err
			}
			return r.run(s.body)
		})
		switch {
		case err == nil:
			whole = true
		case errors.Is(err, errBreak):
			return whole, nil
		case !errors.Is(err, errContinue):
			return whole, err
		}
	}
	return whole, nil
}

// filtered keeps the items for which the loop's condition holds.
func (s forStatement) filtered(r *render, items []Value) ([]Value, error) {
	var kept []Value
	for _, item := range items {
		err := r.inScope(r.scope, func() error {
			if err := r.assign(s.target, item); err != nil {
				return err
			}
			v, err := r.eval(s.filter)
			if err == nil && truth(v) {
				err = r.push(&kept, item)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// iterate returns the items that a for statement would loop over. The list must
// not be changed.
func (m *meter) iterate(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return slices.Clip(v.Items), m.step(len(v.Items))
	case *Dict:
		return slices.Clip(v.keys), m.step(len(v.keys))
	case *generator:
		items := v.rest()
		return items, m.step(len(items))
	case Undefined:
		return nil, nil
	case string:
		out, err := m.items(int64(len(v)))
		if err != nil {
			return nil, err
		}
		for n := nextCharacter(v); n > 0; n = nextCharacter(v) {
			out = append(out, v[:n])
			v = v[n:]
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has no items", kindOf(v))
}
