package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// mostElements bounds the size of a grammar.
const mostElements = 1 << 17

// builder collects the rules of a grammar.
type builder struct {
	rules    []rule
	elements int
	named    map[string]int          // rules of repeated parts
	refs     map[*document]int       // rules of $ref, by what they mean: one part has many pointers
	targets  map[*document]*document // what schemas with a $ref mean, for oneOf
	root     *document               // what $ref is relative to: the schema, or the innermost part with an $id
	depth    int
}

func newBuilder() *builder {
	return &builder{named: map[string]int{}, refs: map[*document]int{}, targets: map[*document]*document{}}
}

// seq is a sequence of parts.
func seq(parts ...[]element) []element {
	var out []element
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// lit is a literal text.
func lit(text string) []element {
	out := make([]element, len(text))
	for i := range out {
		out[i].set = &set{}
		out[i].set.add(text[i], text[i])
	}
	return out
}

// one is a byte of some ranges: one("az09").
func one(ranges string) []element {
	s := &set{}
	for i := 0; i < len(ranges); i += 2 {
		s.add(ranges[i], ranges[i+1])
	}
	return []element{{set: s}}
}

// or is one of several alternatives.
func (b *builder) or(alternatives ...[]element) []element {
	i := b.reserve()
	return b.define(i, alternatives...)
}

// reserve makes a rule that is defined later, because it may contain itself.
func (b *builder) reserve() int {
	b.rules = append(b.rules, nil)
	return len(b.rules) - 1
}

func (b *builder) define(i int, alternatives ...[]element) []element {
	for _, a := range alternatives {
		b.elements += len(a) + 1
	}
	b.rules[i] = alternatives
	return []element{{rule: i}}
}

// call is a rule that f makes when it is first used.
func (b *builder) call(name string, f func() []element) []element {
	if i, ok := b.named[name]; ok {
		return []element{{rule: i}}
	}
	i := b.reserve()
	b.named[name] = i
	return b.define(i, f())
}

func (b *builder) optional(x []element) []element { return b.or(x, nil) }

// any is x, repeated any number of times.
func (b *builder) any(x []element) []element {
	i := b.reserve()
	return b.define(i, seq(x, []element{{rule: i}}), nil)
}

// times is x, repeated at least lo and at most hi times; hi < 0 is any number.
func (b *builder) times(x []element, lo, hi int) []element {
	var out []element
	if hi < 0 {
		out = b.any(x)
	}
	for n := lo; n < hi && b.elements < mostElements; n++ {
		out = b.optional(seq(x, out))
	}
	if lo > 1 {
		x = b.or(x)
	}
	all := make([]element, 0, lo*len(x)+len(out))
	for range lo {
		all = append(all, x...)
	}
	b.elements += lo
	return append(all, out...)
}

// grammar checks the rules and makes the automaton.
func (b *builder) grammar(root []element, v *Vocabulary) (*Grammar, error) {
	if b.elements >= mostElements {
		return nil, fmt.Errorf("more than %d parts", mostElements)
	}
	finite := b.least(true)
	if !ends(root, finite) {
		return nil, errors.New("no finite value can meet it")
	}
	empty := b.least(false)
	ranks := b.ranks(empty)
	if ranks == nil {
		return nil, errors.New("a part refers to itself before anything else, or repeats what may be empty")
	}
	b.prune(finite)
	var places uint32
	for _, r := range b.rules {
		for _, alternative := range r {
			for i := range alternative {
				places++
				alternative[i].at = places
			}
		}
	}
	g := &Grammar{vocabulary: v, automaton: automaton{rules: b.rules, empty: empty, ranks: ranks, limit: math.MaxInt}}
	g.automaton.forget()
	g.start = g.automaton.start(root)
	return g, nil
}

// least reports for each rule whether it has a finite text, if a byte counts as one, and otherwise
// whether it has an empty text. Both are so if all elements of an alternative are so.
func (b *builder) least(bytes bool) []bool {
	is := make([]bool, len(b.rules))
	type form struct{ rule, missing int }
	uses := make([][]*form, len(b.rules)) // by rule: the alternatives that it is an element of
	var found []int
	complete := func(rule int) {
		if !is[rule] {
			is[rule] = true
			found = append(found, rule)
		}
	}
	for i, r := range b.rules {
		for _, alternative := range r {
			f := &form{rule: i}
			for _, e := range alternative {
				switch {
				case e.set == nil:
					f.missing++
					uses[e.rule] = append(uses[e.rule], f)
				case !bytes:
					f.missing++ // for ever
				}
			}
			if f.missing == 0 {
				complete(i)
			}
		}
	}
	for len(found) > 0 {
		last := found[len(found)-1]
		found = found[:len(found)-1]
		for _, f := range uses[last] {
			if f.missing--; f.missing == 0 {
				complete(f.rule)
			}
		}
	}
	return is
}

// ends reports whether there is a finite text of this form.
func ends(form []element, finite []bool) bool {
	for _, e := range form {
		if e.set == nil && !finite[e.rule] {
			return false
		}
	}
	return true
}

// prune removes alternatives without a finite text: an answer that began one could only be cut off.
// What is left means the same, for such an alternative neither ends nor is empty, and refers to no
// rule that has lost all of its alternatives.
func (b *builder) prune(finite []bool) {
	for i := range b.rules {
		b.rules[i] = slices.DeleteFunc(b.rules[i], func(alternative []element) bool { return !ends(alternative, finite) })
	}
}

// ranks orders the rules so that each comes before those that its texts may begin with. It
// returns nil if a rule can begin with itself before any byte.
func (b *builder) ranks(empty []bool) []int {
	const under = -1
	ranks, next := make([]int, len(b.rules)), len(b.rules)
	var visit func(i int) bool
	visit = func(i int) bool {
		if ranks[i] != 0 {
			return ranks[i] == under
		}
		ranks[i] = under
		for _, alternative := range b.rules[i] {
			for _, e := range alternative {
				if e.set != nil {
					break
				}
				if visit(e.rule) {
					return true
				}
				if !empty[e.rule] {
					break
				}
			}
		}
		ranks[i] = next
		next--
		return false
	}
	for i := range b.rules {
		if visit(i) {
			return nil
		}
	}
	return ranks
}
