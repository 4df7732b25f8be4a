package jinja

import (
	"fmt"
	"slices"
)

func (s macroStatement) execute(r *render) error {
	return r.set(s.macro.name, r.function(s.macro))
}

// function makes a macro callable. It sees the variables at its definition.
func (r *render) function(m *macro) *Function {
	defined := r.scope
	return &Function{Name: m.name, macro: m, Call: func(c *Call) (Value, error) {
		return r.capture(defined, func() error {
			if err := r.bind(m, c); err != nil {
				return err
			}
			return r.run(m.body)
		})
	}}
}

// attribute returns an attribute of a macro, as in Jinja. The one of a call block has no name.
func (m *macro) attribute(name string) (Value, bool) {
	takes := func(name string) bool {
		return slices.ContainsFunc(m.parameters, func(p parameter) bool { return p.name == name })
	}
	switch name {
	case "name":
		if m.ofCall {
			return nil, true
		}
		return m.name, true
	case "arguments":
		names := make([]Value, len(m.parameters))
		for i, p := range m.parameters {
			names[i] = p.name
		}
		return tuple(names...), true
	case "catch_kwargs":
		return m.uses["kwargs"] && !takes("kwargs"), true
	case "catch_varargs":
		return m.uses["varargs"] && !takes("varargs"), true
	case "caller":
		return m.uses["caller"], true
	case "explicit_caller":
		return takes("caller"), true
	}
	return nil, false
}

// bind sets the parameters of a macro in its scope.
func (r *render) bind(m *macro, c *Call) error {
	for i, one := range m.parameters {
		v, given := c.named[one.name]
		switch {
		case i < len(c.positional):
			if given {
				return fmt.Errorf("%s: two values for %s", m.name, one.name)
			}
			v = c.positional[i]
		case given:
		case one.value != nil:
			var err error
			if v, err = r.eval(one.value); err != nil {
				return err
			}
		default:
			v = Undefined{name: one.name}
		}
		if err := r.set(one.name, v); err != nil {
			return err
		}
	}
	return r.bindRest(m, c)
}

// bindRest sets caller, varargs and kwargs if the macro uses them, and
// otherwise rejects such arguments. Without a call block caller is undefined, also inside another macro that has one.
func (r *render) bindRest(m *macro, c *Call) error {
	rest := NewDict()
	if explicit, _ := m.attribute("explicit_caller"); m.uses["caller"] && explicit == false {
		if err := r.set("caller", Undefined{name: "caller"}); err != nil {
			return err
		}
	}
	for _, name := range c.names {
		if err := r.step(1 + len(m.parameters)); err != nil {
			return err
		}
		switch {
		case slices.ContainsFunc(m.parameters, func(p parameter) bool { return p.name == name }):
		case name == "caller" && m.uses["caller"]:
			if err := r.set(name, c.named[name]); err != nil {
				return err
			}
		case m.uses["kwargs"]:
			if err := r.take(bytesPerEntry); err != nil {
				return err
			}
			rest.Set(name, c.named[name])
		default:
			return fmt.Errorf("%s takes no argument named %.40s", m.name, name)
		}
	}
	extra := max(len(c.positional)-len(m.parameters), 0)
	if extra > 0 && !m.uses["varargs"] {
		return fmt.Errorf("%s takes %d arguments, not %d", m.name, len(m.parameters), len(c.positional))
	}
	if m.uses["varargs"] {
		if err := r.set("varargs", tuple(c.positional[len(c.positional)-extra:]...)); err != nil {
			return err
		}
	}
	if m.uses["kwargs"] {
		return r.set("kwargs", rest)
	}
	return nil
}

func (s callStatement) execute(r *render) error {
	v, err := r.call(s.call.callee, s.call.arguments, r.function(s.caller))
	if err != nil {
		return err
	}
	text, err := r.text(v)
	if err != nil {
		return err
	}
	return r.print(text)
}
