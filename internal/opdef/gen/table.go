package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// table is the content of csrc/ops/ops.def.
type table struct {
	constants []constant
	kinds     []kinds
	ops       []op
}

type constant struct {
	doc   []string
	name  string
	value int
}

// kinds is a family of numbers.
type kinds struct {
	doc              []string
	prefix, goPrefix string
	goType           string
	values           []value
}

type value struct {
	name, goName string
	number       int
}

type op struct {
	doc          []string
	name, goName string
	fused        bool
	operands     []operand // with groups and other ops' operands expanded
	group        group
	fields       []field
}

// group is several sets of the same operands, the last ones of an op.
type group struct{ first, size, count int }

type operand struct {
	name     string
	access   string // read, write, update
	optional bool
	many     bool
}

type field struct {
	doc    []string
	ctype  string
	name   string
	length int // of an array, or 0
}

// acronyms are words with their own spelling in Go names; other words are capitalized.
var acronyms = map[string]string{"bfloat16": "BFloat16"}

func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		if known, ok := acronyms[word]; ok {
			b.WriteString(known)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// parse reads the table.
func parse(text string) (*table, error) {
	t := &table{}
	var doc []string
	for number, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		var err error
		switch {
		case len(words) == 0:
			doc = nil // a comment that stands alone
			continue
		case words[0] == "//":
			doc = append(doc, strings.Join(words[1:], " "))
			continue
		case line[0] == ' ':
			err = t.continued(words, doc)
		default:
			err = t.begin(words, doc)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		doc = nil
	}
	return t, nil
}

func (t *table) begin(words, doc []string) error {
	switch {
	case words[0] == "const" && len(words) == 3:
		n, err := strconv.Atoi(words[2])
		t.constants = append(t.constants, constant{doc, words[1], n})
		return err
	case words[0] == "kinds" && len(words) == 4:
		t.kinds = append(t.kinds, kinds{doc: doc, prefix: words[1], goPrefix: strings.Trim(words[2], "-"), goType: words[3]})
		return nil
	case (words[0] == "op" || words[0] == "fused") && len(words) > 3 && strings.HasSuffix(words[2], ":"):
		o := op{doc: doc, name: words[1], goName: strings.TrimSuffix(words[2], ":"), fused: words[0] == "fused"}
		if n := len(t.ops); n > 0 && t.ops[n-1].name >= o.name {
			return fmt.Errorf("%s is not in alphabetical order", o.name)
		}
		t.ops = append(t.ops, o)
		return nil
	}
	return fmt.Errorf("%q is no row", strings.Join(words, " "))
}

// continued reads an indented line: values of a family, or a field of an op.
func (t *table) continued(words, doc []string) error {
	if len(t.ops) == 0 {
		if len(t.kinds) == 0 {
			return fmt.Errorf("%q belongs to nothing", words[0])
		}
		return t.kinds[len(t.kinds)-1].add(words)
	}
	if len(words) != 2 {
		return fmt.Errorf("%q is no field", strings.Join(words, " "))
	}
	f := field{doc: doc, ctype: words[0], name: words[1]}
	if m := arrayField.FindStringSubmatch(f.name); m != nil {
		f.name = m[1]
		for _, c := range t.constants {
			if c.name == m[2] {
				f.length = c.value
			}
		}
		if f.length == 0 {
			return fmt.Errorf("there is no constant %s", m[2])
		}
	}
	o := &t.ops[len(t.ops)-1]
	o.fields = append(o.fields, f)
	return nil
}

var arrayField = regexp.MustCompile(`^(\w+)\[(\w+)\]$`)

func (k *kinds) add(words []string) error {
	for _, word := range words {
		next := 0
		if n := len(k.values); n > 0 {
			next = k.values[n-1].number + 1
		}
		word, number, given := strings.Cut(word, "=")
		if given {
			var err error
			if next, err = strconv.Atoi(number); err != nil {
				return err
			}
		}
		name, goName, given := strings.Cut(word, "/")
		if !given {
			goName = camel(name)
		}
		k.values = append(k.values, value{name, k.goPrefix + goName, next})
	}
	return nil
}

// resolve reads the operands of all rows of the table, once all ops are known.
func (t *table) resolve(text string) error {
	at := 0
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "op ") && !strings.HasPrefix(line, "fused ") {
			continue
		}
		_, list, _ := strings.Cut(line, ":")
		if err := t.operandsOf(&t.ops[at], text, list); err != nil {
			return fmt.Errorf("%s: %w", t.ops[at].name, err)
		}
		at++
	}
	return nil
}

var groupOf = regexp.MustCompile(`(\d+)\*\((.*)\)$`)

func (t *table) operandsOf(o *op, text, list string) error {
	var repeated []string
	if m := groupOf.FindStringSubmatch(list); m != nil {
		o.group.count, _ = strconv.Atoi(m[1])
		repeated = strings.Fields(m[2])
		list = strings.TrimSuffix(list, m[0])
	}
	for _, word := range strings.Fields(list) {
		if other, inherits := strings.CutPrefix(word, "="); inherits {
			base, err := t.rowOf(other, text)
			if err != nil {
				return err
			}
			o.operands = append(o.operands, base[:len(base)-1]...)
			continue
		}
		o.operands = append(o.operands, parseOperand(word))
	}
	o.group.first, o.group.size = len(o.operands), len(repeated)
	for range o.group.count {
		for _, word := range repeated {
			o.operands = append(o.operands, parseOperand(word))
		}
	}
	return nil
}

// rowOf returns the operands of another op, which may stand further down.
func (t *table) rowOf(name, text string) ([]operand, error) {
	for i := range t.ops {
		if t.ops[i].name == name {
			m := regexp.MustCompile(`(?m)^(?:op|fused) ` + name + ` \w+:(.*)$`).FindStringSubmatch(text)
			base := op{}
			err := t.operandsOf(&base, text, m[1])
			return base.operands, err
		}
	}
	return nil, fmt.Errorf("there is no op %s", name)
}

func parseOperand(word string) operand {
	o := operand{name: word, access: "read"}
	switch word[0] {
	case '>':
		o.access, o.name = "write", word[1:]
	case '!':
		o.access, o.name = "update", word[1:]
	}
	if rest, found := strings.CutSuffix(o.name, "..."); found {
		o.name, o.many = rest, true
	}
	if rest, found := strings.CutSuffix(o.name, "?"); found {
		o.name, o.optional = rest, true
	}
	return o
}
