package grammar

import (
	"fmt"
	"regexp/syntax"
	"unicode"
)

// pattern makes the rules of a regular expression. A rule is for a place in its program, which is a
// nondeterministic automaton over characters, and contains a character and the rule of the next place.
type pattern struct {
	*builder
	prog        *syntax.Prog
	schema      bool // its text is a JSON string
	looks       []lookahead
	atoms       *atoms // if there are lookaheads
	least, most int    // characters; most < 0 is any number
	kinds       []runes
	rules       map[place]int
	waiting     []place // their rules are not defined yet
	read        map[reading][]element
}

// place is what decides how a text may go on.
type place struct {
	pc     uint32
	before kind   // of the last character
	length int    // characters so far, as far as they are counted
	ahead  string // where the lookaheads are, by encode
}

// reading is what decides which characters an instruction reads. Repetitions of one class have the same runes.
type reading struct {
	op    syntax.InstOp
	runes *rune
	flags uint32
	next  kind
}

// kind is what assertions such as ^ and \b distinguish: there is no character, or which of the pattern's kinds it is.
type kind int

const edge kind = -1 // the beginning or the end of the text

// kindsOf returns the sets of characters that the assertions of programs distinguish. Together they are all characters.
func kindsOf(programs ...*syntax.Prog) []runes {
	words, lines := false, false
	for _, p := range programs {
		for _, i := range p.Inst {
			if i.Op == syntax.InstEmptyWidth {
				words = words || syntax.EmptyOp(i.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
				lines = lines || syntax.EmptyOp(i.Arg)&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0
			}
		}
	}
	rest := allRunes
	var out []runes
	add := func(set runes) { out, rest = append(out, set), rest.without(set) }
	if words {
		add(asciiWord)
		add(otherWord())
	}
	if lines {
		add(runes{'\n', '\n'})
	}
	return append(out, rest)
}

// context returns the assertions that hold between two characters. In schemas, those about words must hold whether or not
// letters other than ASCII belong to words, or with possible in one of the two cases.
func (p *pattern) context(before, next kind, possible bool) syntax.EmptyOp {
	holds := syntax.EmptyOpContext(p.example(before, false), p.example(next, false))
	if !p.schema {
		return holds
	}
	other := syntax.EmptyOpContext(p.example(before, true), p.example(next, true))
	if possible {
		return holds | other
	}
	return holds & other
}

// example returns a character of a kind, or -1 at an edge.
func (p *pattern) example(k kind, letters bool) rune {
	if k == edge {
		return -1
	}
	r := p.kinds[k][0]
	if letters && r == otherWord()[0] {
		return 'a'
	}
	return r
}

// pattern is a text that a regular expression matches as a whole, of least to most characters; most < 0 is any number.
func (b *builder) pattern(re *syntax.Regexp, looks []lookahead, schema bool, least, most int) ([]element, error) {
	prog, err := compiled(re)
	if err != nil {
		return nil, err
	}
	// Characters are counted only if that makes a difference, since each number has rules of its own.
	shortest, longest := lengths(re)
	if shortest >= least {
		least = 0
	}
	if longest <= most {
		most = -1
	}
	programs := []*syntax.Prog{prog}
	for _, l := range looks {
		programs = append(programs, l.prog)
	}
	p := &pattern{
		builder: b, prog: prog, looks: looks, schema: schema, least: least, most: most,
		kinds: kindsOf(programs...), rules: map[place]int{}, read: map[reading][]element{},
	}
	if looks != nil {
		if p.atoms, err = p.atomsOf(programs...); err != nil {
			return nil, err
		}
	}
	root := p.at(place{pc: uint32(prog.Start), before: edge})
	for len(p.waiting) > 0 && b.elements < mostElements {
		next := p.waiting[len(p.waiting)-1]
		p.waiting = p.waiting[:len(p.waiting)-1]
		b.define(p.rules[next], p.follow(next)...)
	}
	return root, nil
}

// compiled returns the program of a regular expression, unless it is too large.
func compiled(re *syntax.Regexp) (*syntax.Prog, error) {
	if size(re) > mostElements {
		return nil, fmt.Errorf("larger than %d", mostElements)
	}
	return syntax.Compile(re.Simplify())
}

// size is roughly the length of a regular expression's program.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), mostElements+1)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Max, re.Min, 1), mostElements+1)
	}
	return n
}

// unlimited is a length that no limit reaches.
const unlimited = 1 << 30

// lengths returns the least and the greatest number of characters that a regular expression can match.
func lengths(re *syntax.Regexp) (least, most int) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r < firstLookahead || r >= firstLookahead+mostLookaheads {
				least++
			}
		}
		return least, least
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	}
	for i, sub := range re.Sub {
		low, high := lengths(sub)
		if re.Op == syntax.OpAlternate && i > 0 {
			least, most = min(least, low), max(most, high)
		} else {
			least, most = min(least+low, unlimited), min(most+high, unlimited)
		}
	}
	switch re.Op {
	case syntax.OpStar:
		return 0, unlimited
	case syntax.OpPlus:
		return least, unlimited
	case syntax.OpQuest:
		return 0, most
	case syntax.OpRepeat:
		if re.Max < 0 {
			return min(least*re.Min, unlimited), unlimited
		}
		return min(least*re.Min, unlimited), min(most*re.Max, unlimited)
	}
	return least, most
}

// at returns the rule of a place.
func (p *pattern) at(to place) []element {
	i, known := p.rules[to]
	if !known {
		i = p.reserve()
		p.rules[to] = i
		p.waiting = append(p.waiting, to)
	}
	return []element{{rule: i}}
}

// follow returns how a text may go on at a place: for each kind of what comes next, it follows the instructions that
// read no character.
func (p *pattern) follow(from place) (out [][]element) {
	after := from.length
	if p.most >= 0 || after < p.least {
		after++
	}
	for next := edge; int(next) < len(p.kinds); next++ {
		context := p.context(from.before, next, false)
		seen := map[place]bool{}
		var visit func(at place)
		visit = func(at place) {
			if seen[at] || p.elements > mostElements {
				return
			}
			seen[at] = true
			p.elements++
			i := &p.prog.Inst[at.pc]
			follow := func(pc uint32) {
				at.pc = pc
				visit(at)
			}
			switch n, asserts := p.lookahead(i); {
			case asserts:
				at.ahead = p.begin(n, at.ahead)
				follow(i.Out)
			case i.Op == syntax.InstAlt || i.Op == syntax.InstAltMatch:
				follow(i.Out)
				follow(i.Arg)
			case i.Op == syntax.InstCapture || i.Op == syntax.InstNop:
				follow(i.Out)
			case i.Op == syntax.InstEmptyWidth:
				if syntax.EmptyOp(i.Arg)&^context == 0 {
					follow(i.Out)
				}
			case i.Op == syntax.InstMatch:
				if next == edge && at.length >= p.least && p.mayEnd(at) {
					out = append(out, nil)
				}
			case reads(i) && next != edge && (p.most < 0 || after <= p.most):
				out = append(out, p.character(i, at, place{i.Out, next, after, ""})...)
			}
		}
		visit(from)
	}
	return out
}

// reads reports whether an instruction reads a character.
func reads(i *syntax.Inst) bool {
	return i.Op == syntax.InstRune || i.Op == syntax.InstRune1 || i.Op == syntax.InstRuneAny || i.Op == syntax.InstRuneAnyNotNL
}

func readingOf(i *syntax.Inst, next kind) reading {
	is := reading{op: i.Op, next: next}
	if len(i.Rune) > 0 {
		is.runes = &i.Rune[0]
	}
	if len(i.Rune) == 1 {
		is.flags = i.Arg
	}
	return is
}

// character returns how a text may go on with a character of a kind that an instruction reads: it is at a place, and goes
// to another one.
func (p *pattern) character(i *syntax.Inst, from, to place) [][]element {
	if p.looks != nil {
		return p.branches(i, from, to)
	}
	is := readingOf(i, to.before)
	form, known := p.read[is]
	if !known {
		if set := runesOf(i).and(p.kinds[to.before]); len(set) > 0 {
			form = p.characters(set, p.schema)
		}
		p.read[is] = form
	}
	if form == nil {
		return nil
	}
	return [][]element{seq(form, p.at(to))}
}

// runesOf returns the characters that an instruction reads.
func runesOf(i *syntax.Inst) runes {
	switch {
	case i.Op == syntax.InstRuneAny:
		return allRunes
	case i.Op == syntax.InstRuneAnyNotNL:
		return allRunes.without(runes{'\n', '\n'})
	case len(i.Rune) != 1:
		return runes(i.Rune)
	}
	set := runes{i.Rune[0], i.Rune[0]}
	if syntax.Flags(i.Arg)&syntax.FoldCase != 0 {
		for r := unicode.SimpleFold(i.Rune[0]); r != i.Rune[0]; r = unicode.SimpleFold(r) {
			set = append(set, r, r)
		}
	}
	return sorted(set)
}
