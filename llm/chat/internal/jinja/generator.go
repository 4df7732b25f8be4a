package jinja

// generator is the result of the filters that yield their items one by one in Jinja: it
// counts as true even if there are none, has no length, and gives each item once.
type generator struct{ items []Value }

func (*generator) kind() string                   { return "generator" }
func (*generator) attribute(string) (Value, bool) { return nil, false }

// rest takes all items that are left.
func (g *generator) rest() []Value {
	items := g.items
	g.items = nil
	return items
}

// next takes one item.
func (g *generator) next() (v Value, ok bool) {
	if len(g.items) == 0 {
		return nil, false
	}
	v, g.items = g.items[0], g.items[1:]
	return v, true
}

// contains takes items up to the one that equals v.
func (g *generator) contains(m *meter, v Value) (bool, error) {
	for item, ok := g.next(); ok; item, ok = g.next() {
		if same, err := m.equal(item, v); same || err != nil {
			return same, err
		}
	}
	return false, nil
}
