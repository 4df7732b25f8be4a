package grammar

import (
	"errors"
	"fmt"
	"sync"
)

// ErrSchema is wrapped by errors about schemas.
var ErrSchema = errors.New("invalid or unsupported JSON schema")

// SchemaError says where a schema cannot be used, and why.
type SchemaError struct {
	Path   string // of the part of the schema, as "#/properties/name"
	Reason string // names the keyword
}

// Error names both.
func (e *SchemaError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrSchema, e.Path, e.Reason) }

// Unwrap returns ErrSchema.
func (e *SchemaError) Unwrap() error { return ErrSchema }

// Options are the options of Compile.
type Options struct {
	// Before and After are written around the JSON, such as "<tool_call>\n" and
	// "\n</tool_call>".
	Before, After string
}

// Grammar is a compiled schema, for one vocabulary. It is safe for concurrent use,
// by matchers that share the states that any of them has reached.
type Grammar struct {
	vocabulary *Vocabulary

	mu        sync.Mutex
	automaton automaton
	start     *state
}

// Compile compiles a JSON schema. It fails with SchemaError for one that is wrong,
// too large, cannot be met, or has a keyword that is not supported.
//
// Supported are type, also as a list; properties, in the order in which they are
// written; required; additionalProperties, as a schema where there are no properties;
// items, minItems, maxItems; minLength, maxLength; enum, const; anyOf; and $ref
// within the schema. title, description, default, examples, deprecated, readOnly,
// writeOnly, $comment, $schema and $id change nothing. Of properties that a schema
// does not name, none is written. true, {} and a type alone stand for all values, or
// all of that type.
//
// White space is a single space, or a line break with up to 20 spaces or tabs.
// Integers have up to 18 digits; other numbers up to 15 before and behind the point,
// and exponents of two.
func Compile(schema []byte, v *Vocabulary, o Options) (*Grammar, error) {
	b := newBuilder()
	root, err := b.schema(schema)
	if err != nil {
		return nil, err
	}
	return b.grammar(root, v, o)
}

// Object is the grammar of any JSON object.
func Object(v *Vocabulary) *Grammar {
	g, err := Compile([]byte(`{"type": "object"}`), v, Options{})
	if err != nil {
		panic(err) // the schema is ours
	}
	return g
}

// Vocabulary returns what the grammar was compiled for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.vocabulary }

// Matcher returns a matcher at the beginning of a text.
func (g *Grammar) Matcher() *Matcher { return &Matcher{g: g, at: g.start} }

// Matcher follows one text, token by token. It serves one goroutine at a time.
type Matcher struct {
	g  *Grammar
	at *state
}

// Mask returns the tokens that may follow, a bit for each: bit i%64 of word i/64. It
// must not be changed. No token is allowed that stands for no text, as special tokens
// do: whether the text may end is what Complete says.
func (m *Matcher) Mask() []uint64 {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.at.mask == nil {
		m.at.mask = m.g.vocabulary.mask(&m.g.automaton, m.at)
	}
	return m.at.mask
}

// Accept takes the next token. It reports false, and changes nothing, if the token
// is not allowed.
func (m *Matcher) Accept(id int) bool {
	return m.AcceptText(m.g.vocabulary.text(id))
}

// AcceptText takes the next bytes of the text; like Accept.
func (m *Matcher) AcceptText(text string) bool {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	at := m.at
	for i := range len(text) {
		if at = m.g.automaton.next(at, text[i]); at == nil {
			return false
		}
	}
	if text == "" {
		return false
	}
	m.at = at
	return true
}

// Complete reports whether the text may end here.
func (m *Matcher) Complete() bool { return m.at.complete }

// Ended reports whether it must, since nothing can follow.
func (m *Matcher) Ended() bool { return m.at.complete && len(m.at.frames) == 0 }
