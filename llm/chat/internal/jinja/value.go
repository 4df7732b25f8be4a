package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Value is any value in a template: nil (none), bool, int64, longInteger, float64,
// string, Undefined, *List, *Dict, *Function, or one of the engine's own objects.
type Value any

// longInteger is an integer of JSON that needs more than 64 bits: its digits, so that
// it prints as it was. It is ordered as the nearest float64, and arithmetic with
// integers refuses it.
type longInteger string

// Undefined is a missing variable or attribute: its name and, for an attribute, the
// type of the value that lacks it.
type Undefined struct{ name, of string }

// List is a list or a tuple, which differ only in how they print.
type List struct {
	Items  []Value
	tuple  bool
	fields []string // names of the items of a tuple, or nil
}

// Dict is a dictionary, in the order in which its keys were set.
type Dict struct {
	keys  []Value
	items map[Value]Value // by the normal form of the key
}

// Function is anything that a template can call. It checks its own arguments.
type Function struct {
	Name  string
	Call  func(c *Call) (Value, error)
	macro *macro // nil for others
}

// object is a value with attributes of its own.
type object interface {
	attribute(name string) (Value, bool)
	kind() string
}

// namespace is what namespace() makes: its attributes can be set.
type namespace struct{ *Dict }

func (n namespace) attribute(name string) (Value, bool) { return n.Get(name) }
func (namespace) kind() string                          { return "Namespace" }

// NewList returns a list.
func NewList(items ...Value) *List { return &List{Items: items} }

func tuple(items ...Value) *List { return &List{Items: items, tuple: true} }

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{items: map[Value]Value{}} }

// Len returns how many entries there are.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	k, ok := normalKey(key)
	if !ok {
		return nil, false
	}
	v, ok := d.items[k]
	return v, ok
}

// Set sets the value of a key; it reports whether the key may be one.
func (d *Dict) Set(key, value Value) bool {
	k, ok := normalKey(key)
	if !ok {
		return false
	}
	if _, known := d.items[k]; !known {
		d.keys = append(d.keys, key)
	}
	d.items[k] = value
	return true
}

func (d *Dict) remove(key Value) {
	k, _ := normalKey(key)
	delete(d.items, k)
	d.keys = slices.DeleteFunc(d.keys, func(other Value) bool {
		o, _ := normalKey(other)
		return o == k
	})
}

// value returns the value of one of d.keys.
func (d *Dict) value(key Value) Value {
	v, _ := d.Get(key)
	return v
}

// Map returns a copy of a value made of texts, lists and dictionaries, with fn
// applied to every text in it.
func Map(v Value, fn func(string) string) Value {
	switch v := v.(type) {
	case string:
		return fn(v)
	case *List:
		items := make([]Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = Map(item, fn)
		}
		return &List{Items: items, tuple: v.tuple}
	case *Dict:
		out := NewDict()
		for _, key := range v.keys {
			out.Set(Map(key, fn), Map(v.value(key), fn))
		}
		return out
	}
	return v
}

// normalKey gives keys that are equal in Python, such as 1, 1.0 and True, the same form.
func normalKey(key Value) (Value, bool) {
	switch k := key.(type) {
	case nil, int64, longInteger:
		return k, true
	case string:
		return withoutMarks(k), true
	case bool:
		return asInt(k), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k), true
		}
		return k, !math.IsNaN(k)
	}
	return nil, false
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// truth is whether a value counts as true.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// kindOf names a value's type as Python does.
func kindOf(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, longInteger:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Undefined:
		return "Undefined"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *Function:
		return "function"
	case object:
		return v.kind()
	}
	return fmt.Sprintf("%T", v)
}

// err returns an error that names the undefined value.
func (u Undefined) err() error {
	if u.of != "" {
		return fmt.Errorf("%.40q of a value of type %s is undefined", u.name, u.of)
	}
	return fmt.Errorf("%.40q is undefined", u.name)
}

// number returns a number as float64, and whether it is one.
func number(v Value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return float64(asInt(v)), true
	case int64:
		return float64(v), true
	case longInteger:
		digits := string(v)
		if len(digits) > maxFloatDigits { // beyond every float64: no need to read them all
			digits = digits[:maxFloatDigits]
		}
		f, _ := strconv.ParseFloat(digits, 64) // infinite where it is out of range
		return f, true
	case float64:
		return v, true
	}
	return 0, false
}

// maxFloatDigits is more than the digits and sign of any integer in the range of float64.
const maxFloatDigits = 320

// integer returns an integer of 64 bits, and whether v is one.
func integer(v Value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return asInt(v), true
	case int64:
		return v, true
	}
	return 0, false
}
