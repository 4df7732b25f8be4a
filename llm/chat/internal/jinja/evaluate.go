package jinja

import (
	"fmt"
	"slices"
)

func (e *literal) evaluate(*render) (Value, error) { return e.value, nil }

func (e *nameExpression) evaluate(r *render) (Value, error) {
	if v, ok := r.scope.get(e.name); ok {
		return v, nil
	}
	return Undefined{name: e.name}, nil
}

func (e *listExpression) evaluate(r *render) (Value, error) {
	items, err := r.all(e.items)
	return &List{Items: items, tuple: e.tuple}, err
}

// all returns the values of expressions.
func (r *render) all(of []expression) ([]Value, error) {
	out, err := r.items(int64(len(of)))
	if err != nil {
		return nil, err
	}
	for _, e := range of {
		v, err := r.eval(e)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (e *dictExpression) evaluate(r *render) (Value, error) {
	if err := r.takeMany(bytesPerEntry, int64(len(e.keys))); err != nil {
		return nil, err
	}
	d := NewDict()
	for i := range e.keys {
		key, err := r.eval(e.keys[i])
		if err != nil {
			return nil, err
		}
		value, err := r.eval(e.values[i])
		if err != nil {
			return nil, err
		}
		if !d.Set(key, value) {
			return nil, fmt.Errorf("%s cannot be a key", kindOf(key))
		}
	}
	return d, nil
}

func (e *attribute) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	return r.attribute(of, e.name)
}

// attribute is of.name: a method, else an item.
func (m *meter) attribute(of Value, name string) (Value, error) {
	switch v := of.(type) {
	case Undefined:
		return nil, v.err()
	case object:
		if found, ok := v.attribute(name); ok {
			return found, nil
		}
	case *List:
		if at := slices.Index(v.fields, name); at >= 0 {
			return v.Items[at], nil
		}
	case *Function:
		if v.macro != nil {
			if err := m.takeMany(bytesPerItem, int64(len(v.macro.parameters))); err != nil {
				return nil, err
			}
			if found, ok := v.macro.attribute(name); ok {
				return found, nil
			}
		}
	}
	if f := method(of, name); f != nil {
		return f, nil
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missing(of, name), nil
}

func missing(of Value, name string) Undefined {
	return Undefined{name, kindOf(of)}
}

func (e *subscript) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(e.key)
	if err != nil {
		return nil, err
	}
	return r.item(of, key)
}

// item is of[key]: an item, else an attribute.
func (m *meter) item(of, key Value) (Value, error) {
	if i, ok := integer(key); ok {
		switch v := of.(type) {
		case *List:
			if at, ok := place(i, len(v.Items)); ok {
				return v.Items[at], nil
			}
			return missing(of, fmt.Sprint(i)), nil
		case string:
			return m.character(v, i)
		}
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Get(key); ok {
			return v, nil
		}
	}
	if name, ok := key.(string); ok {
		return m.attribute(of, name)
	}
	if u, ok := of.(Undefined); ok {
		return nil, u.err()
	}
	return missing(of, "item"), nil
}

// place turns an index, which may count from the end, into a position.
func place(i int64, n int) (int, bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// character is s[i].
func (m *meter) character(s string, i int64) (Value, error) {
	if err := m.scan(len(s)); err != nil {
		return nil, err
	}
	at, ok := place(i, length(s))
	if !ok {
		return missing(s, fmt.Sprint(i)), nil
	}
	for range at {
		s = s[nextCharacter(s):]
	}
	return s[:nextCharacter(s)], nil
}

func (e *conditional) evaluate(r *render) (Value, error) {
	v, err := r.eval(e.condition)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return r.eval(e.yes)
	case e.no == nil:
		return Undefined{name: "an inline if without else"}, nil
	}
	return r.eval(e.no)
}
