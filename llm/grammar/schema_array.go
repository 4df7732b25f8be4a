package grammar

import "fmt"

func (b *builder) array(d *document, path string) ([]element, error) {
	lo, hi, err := bounds(d, "minItems", "maxItems", path)
	if err != nil {
		return nil, err
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
