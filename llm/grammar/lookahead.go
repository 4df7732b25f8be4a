package grammar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
)

// lookahead is an assertion that an expression matches what comes, or does not. Its program runs beside that of the pattern
// from where the assertion is made, and the pattern's places say where it may be.
type lookahead struct {
	prog     *syntax.Prog
	negative bool
}

// Lookaheads are characters in the pattern's program, which no text contains: halves of surrogate pairs.
const (
	firstLookahead = 0xd800
	mostLookaheads = 64
)

// lookahead returns the number of the lookahead that an instruction stands for; ok is false if it is none.
func (p *pattern) lookahead(i *syntax.Inst) (n int, ok bool) {
	if i.Op != syntax.InstRune1 {
		return 0, false
	}
	n = int(i.Rune[0]) - firstLookahead
	return n, n >= 0 && n < len(p.looks)
}

// closing returns the place of the first ) that was not opened, or -1.
func closing(text string) int {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return i
		case c == ')':
			depth--
		}
	}
	return -1
}

// assert translates a lookahead.
func (t *translation) assert() error {
	end := closing(t.rest[1:])
	if end < 0 {
		return errors.New("missing closing )")
	}
	if len(t.looks) == mostLookaheads {
		return fmt.Errorf("more than %d lookaheads", mostLookaheads)
	}
	l := lookahead{negative: t.rest[2] == '!'}
	inner := translation{rest: t.rest[3 : 1+end], possible: l.negative, within: true}
	re, err := inner.parse()
	if err != nil {
		return err
	}
	if l.prog, err = compiled(re); err != nil {
		return err
	}
	fmt.Fprintf(&t.out, `(\x{%x})`, firstLookahead+len(t.looks)) // in a group, so that it never becomes part of a class
	t.looks, t.work = append(t.looks, l), t.work+inner.out.Len()
	t.rest = t.rest[2+end:]
	return nil
}

// ahead is where the program of a lookahead may be.
type ahead struct {
	look int
	at   []uint32
}

// encode returns the places of lookaheads as a part of a place, each of them once.
func encode(all []ahead) string {
	each := make([]string, len(all))
	for i, a := range all {
		one := binary.NativeEndian.AppendUint32(nil, uint32(a.look))
		one = binary.NativeEndian.AppendUint32(one, uint32(len(a.at)))
		for _, pc := range a.at {
			one = binary.NativeEndian.AppendUint32(one, pc)
		}
		each[i] = string(one)
	}
	slices.Sort(each)
	return strings.Join(slices.Compact(each), "")
}

func decode(text string) (all []ahead) {
	next := func() uint32 {
		n := binary.NativeEndian.Uint32([]byte(text[:4]))
		text = text[4:]
		return n
	}
	for text != "" {
		a := ahead{look: int(next())}
		a.at = make([]uint32, next())
		for i := range a.at {
			a.at[i] = next()
		}
		all = append(all, a)
	}
	return all
}

// begin adds the beginning of a lookahead to what encode has returned.
func (p *pattern) begin(look int, to string) string {
	return encode(append(decode(to), ahead{look, []uint32{uint32(p.looks[look].prog.Start)}}))
}

// reach follows the instructions of a lookahead that read no character. It returns those that read one, or says that the
// expression has matched.
func (p *pattern) reach(a ahead, before, next kind) (readers []*syntax.Inst, matches bool) {
	l := &p.looks[a.look]
	holds, seen := p.context(before, next, l.negative), map[uint32]bool{}
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] || p.elements > mostElements {
			return
		}
		seen[pc] = true
		p.elements++
		switch i := &l.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(i.Out)
			visit(i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^holds == 0 {
				visit(i.Out)
			}
		case syntax.InstMatch:
			matches = true
		default:
			if reads(i) {
				readers = append(readers, i)
			}
		}
	}
	for _, pc := range a.at {
		visit(pc)
	}
	return readers, matches
}

// mayEnd reports whether the lookaheads allow that the text ends.
func (p *pattern) mayEnd(from place) bool {
	for _, a := range decode(from.ahead) {
		if _, matches := p.reach(a, from.before, edge); matches == p.looks[a.look].negative {
			return false
		}
	}
	return true
}

// mostAtoms bounds the sets of characters that a pattern with lookaheads may distinguish.
const mostAtoms = 128

// atoms divides all characters by what the instructions of a pattern and its lookaheads read.
type atoms struct {
	sets  []runes
	kinds []kind                  // of each
	read  map[*syntax.Inst][]bool // by instruction: which of them it reads
	forms map[string][]element    // by which of them they consist of
}

// atomsOf finds the atoms of programs.
func (p *pattern) atomsOf(programs ...*syntax.Prog) (*atoms, error) {
	a := &atoms{sets: slices.Clone(p.kinds), read: map[*syntax.Inst][]bool{}, forms: map[string][]element{}}
	known := map[reading]bool{}
	for _, prog := range programs {
		for i := range prog.Inst {
			inst := &prog.Inst[i]
			if is := readingOf(inst, 0); reads(inst) && !known[is] {
				known[is] = true
				a.sets = divide(a.sets, runesOf(inst))
			}
			if len(a.sets) > mostAtoms {
				return nil, errors.New("lookaheads beside that many sets of characters are not supported")
			}
		}
	}
	for _, s := range a.sets {
		k := slices.IndexFunc(p.kinds, func(set runes) bool { return set.has(s[0]) })
		a.kinds = append(a.kinds, kind(k))
	}
	for _, prog := range programs {
		for i := range prog.Inst {
			if inst := &prog.Inst[i]; reads(inst) {
				set := runesOf(inst)
				for _, s := range a.sets {
					a.read[inst] = append(a.read[inst], set.has(s[0]))
				}
			}
		}
	}
	return a, nil
}

// divide divides each of some sets into the characters that are in another one and those that are not.
func divide(sets []runes, by runes) (out []runes) {
	for _, s := range sets {
		for _, part := range []runes{s.and(by), s.without(by)} {
			if len(part) > 0 {
				out = append(out, part)
			}
		}
	}
	return out
}

// branches are the characters of a kind that an instruction reads, with what follows them at a place: they are divided by
// where lookaheads are then, and those that the lookaheads do not allow are left out.
func (p *pattern) branches(i *syntax.Inst, from, to place) (out [][]element) {
	all := decode(from.ahead)
	readers, done := make([][]*syntax.Inst, len(all)), make([]bool, len(all))
	for n, a := range all {
		if readers[n], done[n] = p.reach(a, from.before, to.before); done[n] && p.looks[a.look].negative {
			return nil
		}
	}
	groups := map[string][]rune{} // atoms, by where lookaheads are after them
	for atom, reads := range p.atoms.read[i] {
		if !reads || p.atoms.kinds[atom] != to.before {
			continue
		}
		p.elements++
		if next, ok := p.after(all, readers, done, atom); ok {
			key := encode(next)
			groups[key] = append(groups[key], rune(atom))
		}
	}
	for _, ahead := range slices.Sorted(maps.Keys(groups)) {
		to.ahead = ahead
		out = append(out, seq(p.union(groups[ahead]), p.at(to)))
	}
	return out
}

// union is a character of some atoms.
func (p *pattern) union(of []rune) []element {
	key := string(of)
	form, known := p.atoms.forms[key]
	if !known {
		var set runes
		for _, atom := range of {
			set = append(set, p.atoms.sets[atom]...)
		}
		form = p.characters(sorted(set), p.schema)
		p.atoms.forms[key] = form
	}
	return form
}

// after returns where lookaheads are after a character of an atom, without those that have ended well; ok is false if one can
// no longer hold.
func (p *pattern) after(all []ahead, readers [][]*syntax.Inst, done []bool, atom int) (to []ahead, ok bool) {
	for n, a := range all {
		if done[n] {
			continue
		}
		next := ahead{look: a.look}
		for _, reader := range readers[n] {
			if p.atoms.read[reader][atom] {
				next.at = append(next.at, reader.Out)
			}
		}
		if len(next.at) > 0 {
			slices.Sort(next.at)
			next.at = slices.Compact(next.at)
			to = append(to, next)
		} else if !p.looks[a.look].negative {
			return nil, false
		}
	}
	return to, true
}
