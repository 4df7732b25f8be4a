package grammar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// gbnf reads grammars in GBNF, the notation of llama.cpp:
//
//	root   ::= answer ("," " "? answer){0,3}
//	answer ::= "yes" | "no" | [0-9]+ # a comment
//
// A rule ends with its line, unless that is within parentheses or after a |.
type gbnf struct {
	*builder
	text    string
	at      int
	names   map[string]int // the rule of a name
	unknown map[string]int // names that have no definition yet, and where they were first used
	depth   int
}

// gbnf is a text that the rule root of a grammar allows.
func (b *builder) gbnf(text string) ([]element, error) {
	if len(text) > mostElements {
		return nil, &SyntaxError{Reason: fmt.Sprintf("%d bytes are more than %d", len(text), mostElements)}
	}
	if !utf8.ValidString(text) {
		return nil, &SyntaxError{Reason: "not UTF-8"}
	}
	g := &gbnf{builder: b, text: text, names: map[string]int{}, unknown: map[string]int{}}
	defined := map[string]bool{}
	for g.space(true); g.at < len(text); g.space(true) {
		begin := g.at
		name, err := g.define(defined)
		if err != nil {
			return nil, err
		}
		if defined[name] = true; b.elements > mostElements {
			g.at = begin
			return nil, g.fail("too large")
		}
	}
	if !defined["root"] {
		return nil, &SyntaxError{Reason: "there is no rule root"}
	}
	for _, name := range slices.SortedFunc(maps.Keys(g.unknown), func(a, b string) int { return g.unknown[a] - g.unknown[b] }) {
		g.at = g.unknown[name]
		return nil, g.fail("there is no rule %s", name)
	}
	return []element{{rule: g.names["root"]}}, nil
}

// fail returns an error at the current place.
func (g *gbnf) fail(format string, args ...any) error {
	line := 1 + strings.Count(g.text[:min(g.at, len(g.text))], "\n")
	return &SyntaxError{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// space skips white space and comments, line breaks only if these do not end anything.
func (g *gbnf) space(lines bool) {
	for g.at < len(g.text) {
		switch c := g.text[g.at]; {
		case c == '#':
			if end := strings.IndexAny(g.text[g.at:], "\r\n"); end >= 0 {
				g.at += end
			} else {
				g.at = len(g.text)
			}
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			g.at++
		default:
			return
		}
	}
}

// take skips a text if it comes next.
func (g *gbnf) take(text string) bool {
	if !strings.HasPrefix(g.text[g.at:], text) {
		return false
	}
	g.at += len(text)
	return true
}

// name reads the name of a rule, if one comes next.
func (g *gbnf) name() string {
	begin := g.at
	for g.at < len(g.text) && (alphanumeric(g.text[g.at]) || g.text[g.at] == '-' || g.text[g.at] == '_') {
		g.at++
	}
	return g.text[begin:g.at]
}

// rule returns the rule of a name.
func (g *gbnf) rule(name string) int {
	i, known := g.names[name]
	if !known {
		i = g.reserve()
		g.names[name] = i
	}
	return i
}

// define reads a rule.
func (g *gbnf) define(defined map[string]bool) (name string, err error) {
	begin := g.at
	if name = g.name(); name == "" {
		return "", g.fail("a rule begins with its name")
	}
	if defined[name] {
		g.at = begin
		return "", g.fail("the rule %s comes twice", name)
	}
	if g.space(false); !g.take("::=") {
		return "", g.fail("::= is missing after %s", name)
	}
	g.space(true)
	alternatives, err := g.alternatives(false)
	if err != nil {
		return "", err
	}
	if g.at < len(g.text) && g.text[g.at] != '\r' && g.text[g.at] != '\n' {
		r, _ := utf8.DecodeRuneInString(g.text[g.at:])
		return "", g.fail("unexpected %q", r)
	}
	delete(g.unknown, name)
	g.builder.define(g.rule(name), alternatives...)
	return name, nil
}

// alternatives reads sequences with | between them.
func (g *gbnf) alternatives(nested bool) (out [][]element, err error) {
	if g.depth++; g.depth > mostDepth {
		return nil, g.fail("more than %d levels", mostDepth)
	}
	defer func() { g.depth-- }()
	for {
		one, err := g.sequence(nested)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
		if !g.take("|") {
			return out, nil
		}
		g.space(true)
	}
}

// sequence reads items, each of which may be repeated.
func (g *gbnf) sequence(nested bool) (out []element, err error) {
	for g.elements <= mostElements {
		item, err := g.item()
		if err != nil || item == nil {
			return out, err
		}
		lo, hi, err := g.repetition()
		if err != nil {
			return nil, err
		}
		if lo != 1 || hi != 1 {
			item = g.times(g.or(item), lo, hi)
		}
		out = append(out, item...)
		g.space(nested)
	}
	return nil, g.fail("too large")
}

// item reads what a sequence consists of; nil: something else comes next.
func (g *gbnf) item() ([]element, error) {
	begin := g.at
	switch {
	case g.take(`"`):
		return g.literal()
	case g.take("["):
		return g.class()
	case g.take("."):
		return g.encoded(allRunes), nil
	case g.take("("):
		g.space(true)
		alternatives, err := g.alternatives(true)
		if err == nil && !g.take(")") {
			err = g.fail(") is missing")
		}
		if err != nil {
			return nil, err
		}
		return g.or(alternatives...), nil
	}
	name := g.name()
	if name == "" {
		return nil, nil
	}
	if _, known := g.names[name]; !known {
		g.unknown[name] = begin
	}
	return []element{{rule: g.rule(name)}}, nil
}

// repetition reads how often an item comes.
func (g *gbnf) repetition() (lo, hi int, err error) {
	g.space(false)
	switch {
	case g.take("*"):
		return 0, -1, nil
	case g.take("+"):
		return 1, -1, nil
	case g.take("?"):
		return 0, 1, nil
	case !g.take("{"):
		return 1, 1, nil
	}
	end := strings.IndexByte(g.text[g.at:], '}')
	if end < 0 {
		return 0, 0, g.fail("} is missing")
	}
	text := g.text[g.at : g.at+end]
	low, high, several := strings.Cut(text, ",")
	number := func(s string, without int) int {
		if s = strings.Trim(s, " \t"); s == "" {
			return without
		}
		n, bad := strconv.Atoi(s)
		if bad != nil || n < 0 || n > mostElements/4 {
			err = g.fail("{%s} is not a number of repetitions", text)
		}
		return n
	}
	lo = number(low, 0)
	switch {
	case several:
		hi = number(high, -1)
	case strings.Trim(low, " \t") == "":
		err = g.fail("{%s} is not a number of repetitions", text)
	default:
		hi = lo
	}
	if err == nil && hi >= 0 && lo > hi {
		err = g.fail("{%s}: %d exceeds %d", text, lo, hi)
	}
	g.at += end + 1
	return lo, hi, err
}
