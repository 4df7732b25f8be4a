package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// endless is a definition of objects and lists that require themselves, and of what requires these.
const endless = `"$defs":{
	"object":{"type":"object","properties":{"x":{"$ref":"#/$defs/object"}},"required":["x"]},
	"list":{"type":"array","items":{"$ref":"#/$defs/list"},"minItems":1},
	"both":{"anyOf":[{"$ref":"#/$defs/object"},{"type":"array","items":{"$ref":"#/$defs/both"},"minItems":2}]}}`

// Nothing leads into a part that nothing finite meets, if something else is allowed.
func TestWhatNeverEndsIsNotBegun(t *testing.T) {
	for _, never := range []string{"object", "list", "both"} {
		ref := `{"$ref":"#/$defs/` + never + `"}`
		for schema, texts := range map[string][2][]string{
			`"type":"object","properties":{"a":` + ref + `}`: {{"{}", "{ }"}, {`{"`, `{ "`}},
			`"type":"object","properties":{"a":true,"b":` + ref + `,"c":{"type":"null"}},"required":["c"]`: {
				{`{"c":null}`, `{"a":{},"c":null}`}, {`{"b`, `{"a":1,"b`, `{"c":null,`},
			},
			`"type":"object","additionalProperties":` + ref:                              {{"{}"}, {`{"`}},
			`"type":"array","items":` + ref:                                              {{"[]", "[ ]"}, {"[[", "[{", "[ ["}},
			`"type":"array","items":` + ref + `,"maxItems":3`:                            {{"[]"}, {"[[", "[{"}},
			`"anyOf":[` + ref + `,{"type":"array","items":` + ref + `},{"type":"null"}]`: {{"null", "[]"}, {"{", "[[", "[{"}},
		} {
			g := compile(t, "{"+schema+","+endless+"}", Options{})
			for _, text := range texts[0] {
				require.True(t, accepts(g, text), "%s should take %q", schema, text)
			}
			for _, text := range texts[1] {
				require.False(t, g.Matcher().AcceptText(text), "%s should not begin with %q", schema, text)
			}
		}
		for _, schema := range []string{ref[1 : len(ref)-1], `"type":"array","minItems":1,"items":` + ref, `"anyOf":[` + ref + "," + ref + "]"} {
			_, err := Compile([]byte("{"+schema+","+endless+"}"), bytesAlone(), Options{})
			require.ErrorContains(t, err, "no finite value", schema)
		}
	}
	_, err := Compile([]byte(`{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"$ref":"#/$defs/x"}}}`), bytesAlone(), Options{})
	require.ErrorContains(t, err, "refers to itself before", "which is no value that never ends, but a mistake")
}

// One of several forms that nothing finite meets does not keep the others from being written.
func TestAFormThatNeverEnds(t *testing.T) {
	object := []byte(`{"$ref":"#/$defs/object",` + endless + `}`)
	g, err := CompileAny(bytesAlone(), Alternative{Schema: object, Options: Options{Before: "<a>"}}, Alternative{Schema: []byte(`{"type":"null"}`), Options: Options{Before: "<b>"}})
	require.NoError(t, err)
	require.True(t, accepts(g, "<b>null"))
	require.False(t, g.Matcher().AcceptText("<a"))
}

// Whatever text a grammar of parts that refer to each other at random allows, it can be ended.
func TestEveryTextCanEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const parts = 4
		part := func() any {
			return rapid.SampledFrom([]any{
				map[string]any{"$ref": "#/$defs/0"}, map[string]any{"$ref": "#/$defs/1"}, map[string]any{"$ref": "#/$defs/2"},
				map[string]any{"$ref": "#/$defs/3"}, map[string]any{"type": "null"},
			}).Draw(t, "part")
		}
		defs := map[string]any{}
		for i := range parts {
			defs[fmt.Sprint(i)] = rapid.SampledFrom([]map[string]any{
				{"type": "array", "items": part(), "minItems": rapid.IntRange(0, 1).Draw(t, "least"), "maxItems": 2},
				{"type": "object", "properties": map[string]any{"a": part(), "b": part()}, "required": []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "required")]},
				{"type": "array", "items": map[string]any{"anyOf": []any{part(), part()}}, "minItems": 1},
			}).Draw(t, "form")
		}
		schema, err := json.Marshal(map[string]any{"$ref": "#/$defs/0", "$defs": defs})
		require.NoError(t, err)
		g, err := Compile(schema, bytesAlone(), Options{})
		if err != nil {
			require.ErrorContains(t, err, "no finite value")
			return
		}
		m, r := g.Matcher(), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		text := begin(t, m, r, rapid.IntRange(0, 60).Draw(t, "bytes"))
		require.True(t, canEnd(&g.automaton, m.at), "%s: %s", schema, text)
	})
}

// begin writes up to so many random bytes of a text.
func begin(t *rapid.T, m *Matcher, r *rand.Rand, most int) (text []byte) {
	for range most {
		var allowed []byte
		mask, err := m.Mask()
		require.NoError(t, err)
		for id := range 256 {
			if mask[id>>6]>>(id&63)&1 != 0 {
				allowed = append(allowed, byte(id))
			}
		}
		if len(allowed) == 0 {
			break
		}
		text = append(text, allowed[r.IntN(len(allowed))])
		require.True(t, m.Accept(int(text[len(text)-1])))
	}
	return text
}

// canEnd reports whether every stack of a state is one of rules with a finite text.
func canEnd(a *automaton, s *state) bool {
	b := &builder{rules: a.rules}
	finite, seen := b.least(true), map[*stacks]bool{}
	var visit func(s *stacks) bool
	visit = func(s *stacks) bool {
		if seen[s] {
			return true
		}
		seen[s] = true
		for _, t := range s.tops {
			if !ends(t.rest, finite) || !visit(t.below) {
				return false
			}
		}
		return true
	}
	return visit(s.stacks)
}
