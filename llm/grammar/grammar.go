package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"sync"
)

// ErrSchema is wrapped by errors about schemas.
var ErrSchema = errors.New("invalid or unsupported JSON schema")

// ErrSyntax is wrapped by errors about regular expressions and grammars in GBNF.
var ErrSyntax = errors.New("invalid or unsupported regular expression or grammar")

// ErrWork reports that it takes too much work to find out which tokens may follow. Large grammars
// may need it if they allow very many ways to continue a text, or to read it. The limit is for one
// mask, whose request would otherwise hold up others. What earlier masks of the same grammar have
// found, also for other requests, does not count: so whether a request fails may depend on them.
var ErrWork = errors.New("the grammar takes too much work to find the tokens that may follow")

// SchemaError reports which part of a schema cannot be used, and why.
type SchemaError struct {
	Path   string // the part of the schema, such as "#/properties/name"
	Reason string // names the keyword
}

// Error names both.
func (e *SchemaError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrSchema, e.Path, e.Reason) }

// Unwrap returns ErrSchema.
func (e *SchemaError) Unwrap() error { return ErrSchema }

// SyntaxError reports why a regular expression or a grammar in GBNF cannot be used.
type SyntaxError struct {
	Line   int // the line of the grammar, from 1; 0 if the reason is no single line
	Reason string
}

// Error returns the line and the reason.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%v: %s", ErrSyntax, e.Reason)
	}
	return fmt.Sprintf("%v: line %d: %s", ErrSyntax, e.Line, e.Reason)
}

// Unwrap returns ErrSyntax.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// Options are the options of Compile.
type Options struct {
	// Before and After are written around the text, such as "<tool_call>\n" and
	// "\n</tool_call>".
	Before, After string
}

// Grammar is a compiled schema, regular expression or grammar, for one vocabulary. It is safe for concurrent use,
// by matchers that share the states that any of them has reached.
type Grammar struct {
	vocabulary *Vocabulary

	mu        sync.Mutex
	automaton automaton
	start     *state
}

// Compile compiles a JSON schema. It fails with SchemaError for a schema that is
// wrong, too large or impossible to satisfy, or has an unsupported keyword.
//
// Supported are
//
//   - type, also as a list; enum, const;
//   - properties, which are generated in their order, and required; if there are no properties,
//     propertyNames, a single one of patternProperties, minProperties up to 1, and maxProperties;
//     additionalProperties, as a schema if there are no properties;
//   - prefixItems, items, minItems, maxItems; uniqueItems, if items are of up to 8 constants,
//     none of them an object or a list;
//   - minLength, maxLength; pattern, a regular expression of ECMA-262 without references,
//     lookbehinds and lookaheads within lookaheads; format: base64, binary, date, date-time,
//     duration, email, hostname, ipv4, ipv6, password, path, time, uri, uuid;
//   - minimum, maximum, exclusiveMinimum, exclusiveMaximum; multipleOf up to 100, where
//     the decimal point does not count: 0.05 is 5;
//   - anyOf; oneOf, if its schemas differ in their types, in their constants, or so in a property
//     that each requires; allOf of a single schema;
//   - $ref within the schema or, in a part that has an $id, within the innermost such part.
//
// title, description, default, examples, deprecated, readOnly, writeOnly, contentMediaType,
// contentEncoding, contentSchema, $comment and $schema change nothing. Properties that a schema
// does not name are not generated, and neither are parts that nothing finite can meet, such as an
// object that requires itself, where something else is allowed. true, {} and a type alone stand
// for all values, or all of that type.
//
// Implementations disagree about whether \w, \d and \b know letters and digits other than ASCII. A
// text is generated only if it matches a pattern whether or not they do.
//
// White space is a single space, or a line break with up to 20 spaces or tabs.
// Integers have up to 18 digits; other numbers up to 15 before and 15 after the
// point, and two in the exponent. Numbers with a minimum, a maximum or multipleOf have no exponent.
//
// A nil vocabulary is one without tokens: matchers follow texts, but allow no token.
func Compile(schema []byte, v *Vocabulary, o Options) (*Grammar, error) {
	return CompileAny(v, Alternative{Schema: schema, Options: o})
}

// CompileRegexp compiles a regular expression of Go's syntax (package regexp/syntax), which the
// whole text has to match. It fails with SyntaxError, and otherwise is as Compile.
func CompileRegexp(expression string, v *Vocabulary, o Options) (*Grammar, error) {
	if expression == "" {
		expression = "(?:)" // an Alternative without a Regexp would be a schema
	}
	return CompileAny(v, Alternative{Regexp: expression, Options: o})
}

// CompileGBNF compiles a grammar in GBNF, the notation of llama.cpp, whose rule root the whole text
// has to follow. No rule may begin with itself, and what * or + repeats must not be able to be empty.
// Tokens cannot be named. It fails with SyntaxError, and otherwise is as Compile.
func CompileGBNF(text string, v *Vocabulary, o Options) (*Grammar, error) {
	return CompileAny(v, Alternative{GBNF: text + "\n", Options: o})
}

// Alternative is one form of a text: that of Regexp or of GBNF if one of them is not empty, and
// otherwise that of Schema, as for Compile.
type Alternative struct {
	Schema       []byte
	Regexp, GBNF string
	Options
}

// CompileAny is Compile for texts of one of several forms.
func CompileAny(v *Vocabulary, alternatives ...Alternative) (*Grammar, error) {
	if v == nil {
		v = &Vocabulary{}
	}
	b := newBuilder()
	var all [][]element
	schemas := true
	for _, a := range alternatives {
		form, err := b.form(a)
		if err != nil {
			return nil, err
		}
		all = append(all, seq(lit(a.Before), form, lit(a.After)))
		schemas = schemas && a.isSchema()
	}
	g, err := b.grammar(b.or(all...), v)
	switch {
	case err == nil:
		return g, nil
	case schemas:
		return nil, &SchemaError{"#", err.Error()}
	}
	return nil, &SyntaxError{Reason: err.Error()}
}

func (a *Alternative) isSchema() bool { return a.Regexp == "" && a.GBNF == "" }

// form compiles one alternative, without what is written around it.
func (b *builder) form(a Alternative) ([]element, error) {
	switch {
	case a.isSchema():
		return b.schema(a.Schema)
	case a.Regexp != "" && a.GBNF != "" || a.Schema != nil:
		return nil, &SyntaxError{Reason: "an alternative has one form"}
	case a.GBNF != "":
		return b.gbnf(a.GBNF)
	case len(a.Regexp) > mostElements: // whose syntax tree alone takes about a hundred times its memory
		return nil, &SyntaxError{Reason: fmt.Sprintf("%d bytes are more than %d", len(a.Regexp), mostElements)}
	}
	re, err := syntax.Parse(a.Regexp, syntax.Perl)
	if err != nil {
		return nil, &SyntaxError{Reason: err.Error()}
	}
	out, err := b.pattern(re, nil, false, 0, -1)
	if err != nil {
		return nil, &SyntaxError{Reason: err.Error()}
	}
	return out, nil
}

// Vocabulary returns what the grammar was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary {
	if g == nil {
		return nil
	}
	return g.vocabulary
}

// Matcher returns a matcher at the beginning of a text; that of a nil grammar allows
// nothing.
func (g *Grammar) Matcher() *Matcher {
	if g == nil {
		return &Matcher{}
	}
	return &Matcher{g: g, at: g.start}
}

// Matcher follows one text, token by token. It serves one goroutine at a time.
type Matcher struct {
	g  *Grammar
	at *state
}

// Clone returns a matcher that goes on from the same place, independently.
func (m *Matcher) Clone() *Matcher {
	if !m.made() {
		return &Matcher{}
	}
	own := *m
	return &own
}

// made reports whether the matcher is one of a compiled grammar.
func (m *Matcher) made() bool { return m != nil && m.at != nil }

// Mask returns the tokens that may follow, a bit for each: bit i%64 of word i/64. It
// must not be changed. Tokens without text, such as special tokens, are never
// allowed: use Complete to find out whether the text may end. It may fail with ErrWork.
func (m *Matcher) Mask() ([]uint64, error) {
	if !m.made() {
		return nil, nil
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.g.vocabulary.mask(&m.g.automaton, m.at)
}

// Accept adds the next token. It returns false, and changes nothing, if the token
// is not allowed.
func (m *Matcher) Accept(id int) bool {
	return m.made() && m.AcceptText(m.g.vocabulary.text(id))
}

// AcceptText adds the next bytes of the text, in the same way as Accept. No text at all
// is not allowed, as a token without text is not, and neither is one with a byte that takes
// as much work as ErrWork is about; those of tokens that a mask has allowed do not.
func (m *Matcher) AcceptText(text string) bool {
	if !m.made() {
		return false
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if text == "" {
		return false
	}
	a, at := &m.g.automaton, m.at
	for i := range len(text) {
		a.trim()
		a.begin()
		at = a.next(at, text[i])
		if !a.end() || at == nil {
			return false
		}
	}
	m.at = at
	return true
}

// Complete reports whether the text may end here.
func (m *Matcher) Complete() bool { return m.made() && m.at.empty }

// Ended reports whether the text must end here, because nothing can follow.
func (m *Matcher) Ended() bool { return m.made() && m.at.empty && len(m.at.tops) == 0 }
