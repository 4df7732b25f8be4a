package grammar

import (
	"fmt"
	"math/bits"
	"slices"
)

func (b *builder) array(d *document, path string) ([]element, error) {
	lo, hi, err := bounds(d, "minItems", "maxItems", path)
	if err != nil {
		return nil, err
	}
	if unique := d.get("uniqueItems"); unique != nil && unique.kind != 'f' && (hi < 0 || hi > 1) {
		return b.set(d, lo, hi, path)
	}
	first, err := b.prefix(d.get("prefixItems"), path+"/prefixItems")
	if err != nil {
		return nil, err
	}
	item := b.value()
	switch items := d.get("items"); {
	case items != nil && items.kind == 'f' && len(first) > 0:
		if hi < 0 || hi > len(first) {
			hi = len(first)
		}
		if lo > hi {
			return nil, &SchemaError{path, fmt.Sprintf("minItems %d exceeds the %d items that are allowed", lo, hi)}
		}
	case items != nil:
		if item, err = b.compile(items, path+"/items"); err != nil {
			return nil, err
		}
	}
	if len(first) > 0 {
		return b.tuple(first, item, lo, hi), nil
	}
	return b.list(item, lo, hi), nil
}

// prefix compiles the schemas of an array's first items; v may be nil.
func (b *builder) prefix(v *document, path string) (out [][]element, err error) {
	if v == nil {
		return nil, nil
	}
	if v.kind != '[' {
		return nil, &SchemaError{path, "not a list of schemas"}
	}
	for i, item := range v.items {
		form, err := b.compile(item, fmt.Sprintf("%s/%d", path, i))
		if err != nil {
			return nil, err
		}
		out = append(out, form)
	}
	return out, nil
}

// tuple is an array of lo to hi items, whose first ones have forms of their own; hi < 0 is any number.
func (b *builder) tuple(first [][]element, item []element, lo, hi int) []element {
	rest := b.space()
	if hi < 0 || hi > len(first) {
		more := b.or(seq(b.space(), lit(","), b.space(), item))
		rest = seq(b.times(more, max(lo-len(first), 0), max(hi-len(first), -1)), rest)
	} else {
		first = first[:hi]
	}
	for i := len(first) - 1; i >= 0; i-- {
		with := seq(b.space(), first[i], rest)
		if i > 0 {
			with = seq(b.space(), lit(","), with)
		}
		if i < lo {
			rest = b.or(with)
		} else {
			rest = b.or(with, b.space())
		}
	}
	return seq(lit("["), rest, lit("]"))
}

// mostUnique bounds the constants of which an array has each at most once: there are rules for each set of them.
const mostUnique = 8

// set is an array of lo to hi different items, which are constants; hi < 0 is any number.
func (b *builder) set(d *document, lo, hi int, path string) ([]element, error) {
	items := b.target(d.get("items"))
	if items == nil || items.constants() == nil || d.get("prefixItems") != nil {
		return nil, &SchemaError{path + "/uniqueItems", fmt.Sprintf("of items other than up to %d constants is not supported", mostUnique)}
	}
	values, err := b.ofType(items, items.constants(), path+"/items")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(values, func(v *document) bool { return v.is("object") || v.is("array") }) {
		return nil, &SchemaError{path + "/uniqueItems", "of objects and lists is not supported"} // equal ones may be spelled differently
	}
	seen := map[string]bool{}
	values = slices.DeleteFunc(values, func(v *document) bool {
		known := seen[v.canonical()]
		seen[v.canonical()] = true
		return known
	})
	if len(values) > mostUnique {
		return nil, &SchemaError{path + "/uniqueItems", fmt.Sprintf("of more than %d constants is not supported", mostUnique)}
	}
	rules := make([]int, 1<<len(values)) // by the constants that are taken, a bit for each
	for i := range rules {
		rules[i] = b.reserve()
	}
	for taken, rule := range rules {
		count := bits.OnesCount(uint(taken))
		var out [][]element
		if count >= lo {
			out = append(out, b.space())
		}
		for i, v := range values {
			if taken>>i&1 == 1 || hi >= 0 && count >= hi {
				continue
			}
			var comma []element
			if count > 0 {
				comma = seq(b.space(), lit(","))
			}
			out = append(out, seq(comma, b.space(), lit(string(v.raw)), []element{{rule: rules[taken|1<<i]}}))
		}
		b.define(rule, out...)
	}
	return seq(lit("["), []element{{rule: rules[0]}}, lit("]")), nil
}
