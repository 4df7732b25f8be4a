package jinja

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Everything that grows with its input is built by the functions in this file, which
// count its cost before they build it. Values of constant size are covered by the
// step of their expression.

// items returns an empty list with room for n items.
func (m *meter) items(n int64) ([]Value, error) {
	if err := m.takeMany(bytesPerItem, n); err != nil {
		return nil, err
	}
	return make([]Value, 0, n), nil
}

// clone copies items.
func (m *meter) clone(items []Value) ([]Value, error) {
	if err := m.takeMany(bytesPerItem, int64(len(items))); err != nil {
		return nil, err
	}
	return slices.Clone(items), nil
}

// push appends an item to a list whose final length is unknown.
func (m *meter) push(items *[]Value, v Value) error {
	if err := m.take(bytesPerItem); err != nil {
		return err
	}
	*items = append(*items, v)
	return nil
}

// convert returns fn(text), which is at most the given number of times as long.
func (m *meter) convert(s string, times int64, fn func(string) string) (string, error) {
	if err := m.takeMany(times, int64(len(s))); err != nil {
		return "", err
	}
	return fn(s), nil
}

// builder is a text under construction.
type builder struct {
	*meter
	b strings.Builder
}

func (b *builder) write(s string) error {
	if err := b.scan(len(s)); err != nil {
		return err
	}
	if b.b.Cap()-b.b.Len() < len(s) {
		// The text moves to memory of twice the size; what it leaves is garbage, and counts.
		if err := b.takeMany(1, 2*int64(b.b.Cap())+int64(len(s))); err != nil {
			return err
		}
		b.b.Grow(len(s))
	}
	b.b.WriteString(s)
	return nil
}

func (b *builder) writeAll(texts ...string) error {
	for _, s := range texts {
		if err := b.write(s); err != nil {
			return err
		}
	}
	return nil
}

// escaped writes a text in which escape replaces characters; "" keeps a character.
// Bytes that are not UTF-8 become U+FFFD.
func (b *builder) escaped(s string, escape func(rune) string) error {
	start := 0 // start of the text that has not been written
	for i, r := range s {
		by, size := escape(r), utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(s[i:])
			by = cmp.Or(by, string(r))
		}
		if by == "" {
			continue
		}
		if err := b.writeAll(s[start:i], by); err != nil {
			return err
		}
		start = i + size
	}
	return b.write(s[start:])
}
