package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// bytesAlone is a vocabulary of all single bytes and some longer tokens.
func bytesAlone(more ...string) *Vocabulary {
	return newVocabulary(257+len(more), func(id int) string {
		switch {
		case id < 256:
			return string([]byte{byte(id)})
		case id == 256:
			return ""
		}
		return more[id-257]
	})
}

func compile(t require.TestingT, schema string, o Options) *Grammar {
	g, err := Compile([]byte(schema), bytesAlone(), o)
	require.NoError(t, err, schema)
	return g
}

func accepts(g *Grammar, text string) bool {
	m := g.Matcher()
	return m.AcceptText(text) && m.Complete()
}

func TestForms(t *testing.T) {
	for schema, texts := range map[string][2][]string{
		`true`:                {{`{"a": [1, -2.5e3, "x\n\u00e9é\ud7ff", null, true]}`, " 0", "[]", "[ ]", "{}", "\n  0"}, {"", "01", "1.", "{a:1}", "[1,]", "\"\x01\"", "\"\xff\"", `"\ud800"`, "nul", "1 1"}},
		`{"type": "integer"}`: {{"0", "-17", "123456789012345678"}, {"1.5", "-", "1e3", "1234567890123456789"}},
		`{"type": "number"}`:  {{"0", "-123456789012345678", "123456789012345.5e-10"}, {"1234567890123456789", "1234567890123456.5", "1234567890123456e1"}},
		`{"type": "integer", "minimum": -3, "maximum": 120}`:                    {{"-3", "-1", "0", "9", "99", "100", "119", "120"}, {"-4", "-10", "121", "130", "200", "1000", "00", "1.0"}},
		`{"type": "integer", "exclusiveMinimum": 8.5, "exclusiveMaximum": 1e2}`: {{"9", "99"}, {"8", "100", "-9"}},
		`{"type": "integer", "maximum": -20}`:                                   {{"-20", "-99", "-123456789012345678"}, {"-19", "0", "20"}},
		`{"minimum": 0, "maximum": 1}`:                                          {{"0", "0.0", "0.123456789012345", "1", "1.000"}, {"-0.1", "1.001", "2", "10", "0.", "1e0", `""`}},
		`{"type": ["number", "null"], "exclusiveMinimum": 0}`:                   {{"0.001", "5", "123456789012345678", "null"}, {"0", "0.000", "-1", "0.0000000000000001"}},
		`{"type": "number", "minimum": -12.5, "exclusiveMaximum": 0.25}`:        {{"-12.5", "-12.4999", "-3", "-0", "0.2", "0.2499", "0.0"}, {"-12.51", "-13", "0.25", "0.250", "0.3", "1"}},
		`{}`: {{"123456789012345678", `[{"id": 123456789012345678}]`}, {"1234567890123456789"}},
		`{"type": "string", "minLength": 2, "maxLength": 3}`:                                                                                     {{`"ab"`, `"äöü"`, `"\n\u0041b"`}, {`"a"`, `"abcd"`, `""`}},
		`{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}`:                                                          {{"[true]", "[true, false]", "[ true ,false ]"}, {"[]", "[true,true,true]", "[1]"}},
		`{"prefixItems": [{"type": "integer"}, {"type": "null"}], "items": {"type": "boolean"}}`:                                                 {{"[]", "[1]", "[ 1 , null ]", "[1,null,true,false]"}, {"[null]", "[1,2]", "[1,null,1]", "[1,]"}},
		`{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 2, "maxItems": 2}`:                                {{"[1, null]"}, {"[]", "[1]", "[1,null,0]"}},
		`{"prefixItems": [{"type": "integer"}, {"type": "null"}, true], "items": false, "minItems": 1}`:                                          {{"[1]", "[1,null]", "[1,null,{}]"}, {"[]", "[1,null,{},1]"}},
		`{"prefixItems": [{"type": "integer"}], "minItems": 3, "maxItems": 4, "items": {"type": "null"}}`:                                        {{"[1,null,null]", "[1,null,null,null]"}, {"[1,null]", "[1,null,null,null,null]"}},
		`{"prefixItems": [true, true], "maxItems": 1}`:                                                                                           {{"[]", "[1]"}, {"[1,2]"}},
		`{"type": "object", "propertyNames": {"pattern": "^[a-z]$"}, "additionalProperties": {"type": "integer"}}`:                               {{`{}`, `{"a":1,"b":2}`}, {`{"ab":1}`, `{"a":"1"}`, `{1:1}`}},
		`{"type": "object", "propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["x", 1, "y"]}}}`:                                    {{`{"x":null,"y":{}}`}, {`{"z":1}`, `{1:1}`}},
		`{"type": "object", "patternProperties": {"^v\\d$": {"type": "null"}}, "additionalProperties": false}`:                                   {{`{"v1":null}`, "{ }"}, {`{"v":null}`, `{"v1":1}`}},
		`{"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2}`:                                {{`{"a":1}`, `{ "a":1, "b":2 }`}, {`{}`, `{"a":1,"b":2,"c":3}`}},
		`{"uniqueItems": true, "items": {"$ref": "#/$defs/c"}, "minItems": 1, "maxItems": 3, "$defs": {"c": {"enum": ["r", "g", 1, "b", 1.0]}}}`: {{`["r"]`, `["b", "r",1]`, `[1,"g"]`}, {`[]`, `["r","r"]`, `[1,1.0]`, `["r","g","b",1]`, `["x"]`}},
		`{"type": "array", "uniqueItems": true, "items": {"type": "string", "enum": ["r", 1, "g"]}}`:                                             {{`[]`, `["g","r"]`}, {`[1]`, `["g","r","g"]`}},
		`{"properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": {}}`:                                                 {{`{"a":null}`}, {`{}`}},
		`{"type": "array", "uniqueItems": true, "maxItems": 1}`:                                                                                  {{`[]`, `[7]`}, {`[1,2]`}},
		`{"type": "array", "uniqueItems": false, "items": {"const": 1}}`:                                                                         {{`[1,1]`}, {`[2]`}},
		`{"maxProperties": 0}`:                                                                 {{`{}`}, {`{"a":1}`}},
		`{"type": "array", "maxItems": 0}`:                                                     {{"[]", "[ ]"}, {"[1]"}},
		`{"enum": ["a", 1, {"b": []}]}`:                                                        {{`"a"`, "1", `{"b":[]}`}, {`"b"`, "2"}},
		`{"enum": ["caf\u00e9", "\ud83d\ude00\/"]}`:                                            {{`"café"`, `"😀/"`}, {`"caf\u00e9"`}},
		`{"type": "integer", "enum": [1.0, 2, 1.5]}`:                                           {{"1.0", "2"}, {"1.5"}},
		`{"type": "string", "enum": ["a", 1]}`:                                                 {{`"a"`}, {"1"}},
		`{"$defs": {"a": {"const": 1}}, "allOf": [{"$ref": "#/$defs/a"}], "default": 1}`:       {{"1"}, {"2"}},
		`{"oneOf": [{"type": ["string", "null"]}, {"type": "integer"}, {"enum": [true, {}]}]}`: {{`"a"`, "null", "7", "{}", "true"}, {"false", "1.5"}},
		`{"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [{"$ref": "#/$defs/sum"}, {"$ref": "#/$defs/leaf"}]},
			"sum": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "k": {"const": "+"}}, "required": ["a", "k"]},
			"leaf": {"type": "object", "properties": {"a": {"type": "null"}, "k": {"const": 0}}, "required": ["a", "k"]}}}`: {
			{`{"a":{"a":null,"k":0},"k":"+"}`}, {`{"a":null,"k":"+"}`, `{"a":{"a":null,"k":0},"k":0}`},
		},
		`{"discriminator": {"propertyName": "k"}, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
			"a": {"type": "object", "properties": {"k": {"const": "a", "type": "string"}, "x": {"type": "integer"}}, "required": ["k", "x"]},
			"b": {"type": "object", "properties": {"k": {"enum": ["b", "c"]}}, "required": ["k"]}}}`: {{`{"k":"a","x":1}`, `{"k":"c"}`}, {`{"k":"a"}`, `{"k":"b","x":1}`}},
		`{"const": null}`:               {{"null"}, {"0"}},
		`{"type": ["null", "integer"]}`: {{"null", "3"}, {`""`}},
		`{"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}]}`: {{"null", `{"a":null}`}, {"{}", `{"a":1}`}},
		`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": true}, "required": ["b"]}`: {
			{`{"b":null}`, `{"a": 1, "b": null}`, `{"b":null,"c":[{}]}`, "{\n  \"a\": 1,\n  \"b\": null\n}"}, {"{}", `{"a":1}`, `{"a":1,}`, `{,"b":null}`, `{"b":null,"a":1}`, `{"b":null,"d":1}`},
		},
		`{"type": "object", "additionalProperties": {"type": "integer"}}`: {{"{}", `{"x":1,"y":2}`}, {`{"x":"1"}`}},
		`{"properties": {"a": {"$id": "a", "properties": {"b": {"$ref": "#/$defs/c"}}, "$defs": {"c": {"const": 1}}}, "d": {"$ref": "#/$defs/c"}, "e": {"$ref": "#/properties/a/properties/b"}}, "$defs": {"c": {"const": 2}}, "type": "object"}`: {
			{`{"a":{"b":1},"d":2,"e":1}`}, {`{"a":{"b":2}}`, `{"d":1}`, `{"e":2}`},
		},
		`{"type": "object", "properties": {"$id": {"type": "null"}, "a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/properties/a"}}, "$defs": {"x": {"const": 1}}}`: {
			{`{"$id":null,"a":1,"b":1}`}, {`{"b":2}`},
		},
		`{"type": "object", "additionalProperties": false}`: {{"{}"}, {`{"x":1}`}},
		`{"$defs": {"n": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["next"]}}, "$ref": "#/$defs/n"}`: {
			{`{"next":{"next":null}}`}, {`{"next":{}}`},
		},
		`{"$defs": {"a b": {"const": 1}, "100%/~": {"const": 2}},
			"anyOf": [{"$ref": "#/$defs/a%20b"}, {"$ref": "#/%24defs/100%25~1~0"}]}`: {{"1", "2"}, {"3"}},
	} {
		g := compile(t, schema, Options{})
		for _, text := range texts[0] {
			require.True(t, accepts(g, text), "%s should take %q", schema, text)
		}
		for _, text := range texts[1] {
			require.False(t, accepts(g, text), "%s should not take %q", schema, text)
		}
	}
	g := compile(t, `{"type":"null"}`, Options{Before: "<call>\n", After: "</call>"})
	m := g.Matcher()
	require.True(t, m.AcceptText("<call>\nnull</call>"))
	require.True(t, m.Ended())
	require.False(t, m.Accept(' '))
	require.True(t, accepts(compile(t, `{"type":"object"}`, Options{}), `{"a":{"b":[]}}`))
}

// A grammar without a vocabulary follows texts, and allows no token.
func TestNoVocabulary(t *testing.T) {
	for _, v := range []*Vocabulary{nil, {}} {
		g, err := Compile([]byte(`{"type":"object"}`), v, Options{})
		require.NoError(t, err)
		require.Zero(t, g.Vocabulary().Size())
		m := g.Matcher()
		mask, err := m.Mask()
		require.NoError(t, err)
		require.Empty(t, mask)
		require.False(t, m.Accept(0))
		require.True(t, accepts(g, `{"a":1}`))
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 80) + "true" + strings.Repeat("}", 80)
	for schema, reason := range map[string]string{
		`{`: "#", `1`: "neither", `false`: "neither", `{"type": "text"}`: "none of", `{"type": []}`: "no type",
		`{"pattern": "a(?<=b)"}`: "#/pattern: lookbehinds are not supported", `{"pattern": 1}`: "not a string", `{"pattern": "a", "format": "date"}`: "beside", `{"pattern": "^aa$", "maxLength": 1}`: "no finite value", `{"properties": {"a": {"format": "regex"}}}`: "#/properties/a/format", `{"format": "date", "maxLength": 3}`: "no finite value", `{"format": 1}`: "none of",
		`{"minimum": "3"}`: "not a finite number", `{"maximum": 1e999}`: "#/maximum", `{"exclusiveMinimum": true}`: "not a finite number",
		`{"minimum": 3, "exclusiveMinimum": 3}`: "beside", `{"minimum": 3, "maximum": 2}`: "no finite value", `{"multipleOf": 101}`: "more than 100", `{"multipleOf": 0}`: "above 0", `{"multipleOf": "1"}`: "above 0", `{"multipleOf": 1.234}`: "more than 100", `{"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 6}`: "no finite value",
		`{"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}`: "no finite value", `{"type": "integer", "minimum": 1e18}`: "no finite value",
		`{"oneOf": [true, true]}`: "oneOf: schemas that do not visibly", `{"oneOf": [{"type": "integer"}, {"type": "number"}]}`: "visibly", `{"oneOf": [{"type": "string"}, {"minimum": 3}]}`: "visibly",
		`{"oneOf": [{"const": 1}, {"const": "1"}, {"const": 1.0}]}`: "visibly", `{"oneOf": [{"$ref": "#"}, {"type": "object"}]}`: "visibly",
		`{"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}}, {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]}]}`: "visibly", `{"allOf": [true, true]}`: "allOf: more than one", `{"allOf": [true], "type": "null"}`: "beside", `{"not": true}`: "not",
		`{"prefixItems": 1}`: "prefixItems: not a list", `{"prefixItems": [true], "items": false, "minItems": 2}`: "exceeds", `{"propertyNames": {"type": "integer"}}`: "propertyNames: not a schema of strings", `{"propertyNames": {"enum": [3]}}`: "no value of the type",
		`{"patternProperties": {"a": true, "b": true}}`: "other than one", `{"patternProperties": {"(": true}}`: "missing", `{"patternProperties": {"a": true}, "propertyNames": true}`: "beside", `{"patternProperties": {"a": true}, "properties": {"a": true}}`: "beside properties",
		`{"uniqueItems": true, "items": {"enum": ["a", "bb"], "minLength": 2}}`: "uniqueItems: of items other", `{"uniqueItems": true, "items": {"const": "a", "enum": ["b"]}}`: "uniqueItems: of items other",
		`{"uniqueItems": true, "items": {"$ref": "#/$defs/e", "enum": ["a"]}, "$defs": {"e": {"enum": ["a", "b"]}}}`: "uniqueItems: of items other", `{"uniqueItems": true, "items": {"enum": [[1], [1.0]]}}`: "uniqueItems: of objects and lists",
		`{"propertyNames": {"$ref": "#/$defs/n", "maxLength": 3}, "$defs": {"n": {"type": "string"}}}`: "propertyNames: not a schema of strings",
		`{"uniqueItems": true}`: "uniqueItems: of items other", `{"uniqueItems": true, "items": {"type": "string"}}`: "uniqueItems: of items other", `{"uniqueItems": true, "items": {"enum": [1,2,3,4,5,6,7,8,9]}}`: "more than 8", `{"uniqueItems": true, "items": {"enum": [1]}, "minItems": 2}`: "no finite value",
		`{"minProperties": 2}`: "more than 1", `{"minProperties": 1, "additionalProperties": false}`: "no property", `{"maxProperties": 1, "properties": {"a": true}}`: "beside properties",
		`{"minItems": -1}`: "whole", `{"maxLength": 1.5}`: "whole", `{"minLength": 3, "maxLength": 2}`: "exceeds", `{"minItems": 1e9}`: "exceeds",
		`{"required": ["a"]}`: "not one of", `{"properties": {"a": true}, "additionalProperties": {"type": "null"}}`: "beside properties",
		`{"$ref": "#"}`: "finite", `{"anyOf": [{"$ref": "#"}, true]}`: "itself", `{"$ref": "other.json"}`: "neither # nor", `{"$ref": "#/$defs/x"}`: "not in", `{"$ref": "#/$defs/%x"}`: "escape",
		`{"enum": []}`: "no value", `{"enum": 1}`: "not a list", `{"anyOf": []}`: "not a list", `{"$ref": "#/$defs/x", "type": "null"}`: "beside",
		`{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}`: "finite", deep: "levels", `{"type": "null", "type": "null"}`: "duplicate", `{"type": ["string", "null", "string"]}`: "twice",
		`{"type": "array", "maxItems": 9000, "items": {"type": "string", "maxLength": 9000}}`:   "",
		`{"anyOf": [` + strings.Repeat(`{"type": "string", "maxLength": 30000},`, 9) + `true]}`: "large",
	} {
		_, err := Compile([]byte(schema), bytesAlone(), Options{})
		if reason == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.ErrorIs(t, err, ErrSchema, schema)
		require.ErrorContains(t, err, reason, schema)
	}
}

// randomSchema draws a schema.
func randomSchema(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "number", "integer", "boolean", "null", "enum", "any"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "anyOf")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "any":
		return map[string]any{}
	case "enum":
		return map[string]any{"enum": rapid.SliceOfN(rapid.SampledFrom([]any{"a", "ä\"", 1.0, -2.5, true, nil, []any{1.0}, map[string]any{"k": "v"}}), 1, 3).Draw(t, "values")}
	case "string":
		lo := rapid.IntRange(0, 3).Draw(t, "lo")
		return map[string]any{"type": kind, "minLength": lo, "maxLength": lo + rapid.IntRange(0, 3).Draw(t, "more")}
	case "array":
		lo := rapid.IntRange(0, 2).Draw(t, "lo")
		return map[string]any{"type": kind, "items": randomSchema(t, depth-1), "minItems": lo, "maxItems": lo + rapid.IntRange(0, 2).Draw(t, "more")}
	case "anyOf":
		return map[string]any{"anyOf": []any{randomSchema(t, depth-1), randomSchema(t, depth-1)}}
	case "object":
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "äß", "\"", "long name"}), 1, 4, rapid.ID[string]).Draw(t, "names")
		props, required := map[string]any{}, []any{}
		for _, n := range names {
			props[n] = randomSchema(t, depth-1)
			if rapid.Bool().Draw(t, "required") {
				required = append(required, n)
			}
		}
		return map[string]any{"type": kind, "properties": props, "required": required, "additionalProperties": false}
	default:
		return map[string]any{"type": kind}
	}
}

// valid checks a value by the definitions of the keywords.
func valid(schema map[string]any, v any) bool {
	if all, ok := schema["anyOf"]; ok {
		return slices.ContainsFunc(all.([]any), func(s any) bool { return valid(s.(map[string]any), v) })
	}
	if all, ok := schema["enum"]; ok {
		want, _ := json.Marshal(v)
		return slices.ContainsFunc(all.([]any), func(s any) bool { got, _ := json.Marshal(s); return string(got) == string(want) })
	}
	switch schema["type"] {
	case "string":
		s, ok := v.(string)
		n := utf8.RuneCountInString(s)
		return ok && n >= schema["minLength"].(int) && n <= schema["maxLength"].(int)
	case "number":
		_, ok := v.(float64)
		return ok
	case "integer":
		n, ok := v.(float64)
		return ok && n == float64(int64(n))
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "null":
		return v == nil
	case "array":
		a, ok := v.([]any)
		return ok && len(a) >= schema["minItems"].(int) && len(a) <= schema["maxItems"].(int) &&
			!slices.ContainsFunc(a, func(x any) bool { return !valid(schema["items"].(map[string]any), x) })
	case "object":
		o, ok := v.(map[string]any)
		for name, value := range o {
			inner, known := schema["properties"].(map[string]any)[name]
			ok = ok && known && valid(inner.(map[string]any), value)
		}
		for _, name := range schema["required"].([]any) {
			_, there := o[name.(string)]
			ok = ok && there
		}
		return ok
	}
	return true
}

// write generates a random text of a grammar, until it may end.
func write(m *Matcher, r *rand.Rand, most int) (string, bool) {
	var out []byte
	for len(out) < most {
		if m.Complete() && (m.Ended() || r.IntN(4) == 0) {
			return string(out), true
		}
		var allowed []byte
		mask, err := m.Mask()
		if err != nil {
			return err.Error(), false
		}
		for id := range 256 {
			if mask[id>>6]>>(id&63)&1 != 0 {
				allowed = append(allowed, byte(id))
			}
		}
		if len(allowed) == 0 {
			return string(out), false
		}
		b := allowed[r.IntN(len(allowed))]
		for _, end := range []byte(`"]}`) { // otherwise it would hardly ever end
			if slices.Contains(allowed, end) && r.IntN(3) == 0 {
				b = end
			}
		}
		if !m.Accept(int(b)) {
			return string(out), false
		}
		out = append(out, b)
	}
	return "", true
}

// Texts generated by the masks of any schema are JSON that conforms to it, and
// masks agree with Accept.
func TestWhatIsWrittenIsValid(t *testing.T) {
	runs, finished := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		schema := randomSchema(t, 3)
		data, err := json.Marshal(schema)
		require.NoError(t, err)
		g := compile(t, string(data), Options{})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		text, ok := write(g.Matcher(), r, 400)
		require.True(t, ok, "%s: nothing may follow %q", data, text)
		if text == "" {
			return
		}
		finished++
		require.True(t, jsontext.Value(text).IsValid(), "%s: %q", data, text)
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		require.True(t, valid(schema, v), "%s: %s", data, text)
	})
	require.Greater(t, finished, runs/5)
}

// A mask has exactly the tokens that may follow, whatever prefixes they share.
func TestMasks(t *testing.T) {
	v := bytesAlone(`"a`, `"a"`, `"a":`, `"a": 1`, `"a": 1}`, `"ab`, `{"`, `{"a"`, ` 12`, "é", "\xc3", `},`, `"}`, `: "`)
	g, err := Compile([]byte(`{"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"string"}}}`), v, Options{})
	require.NoError(t, err)
	for _, text := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a": `, `{"a": 1`, `{"ab":"x`, `{"ab":"x"`, `{"ab":"\u00`} {
		m := g.Matcher()
		require.True(t, text == "" || m.AcceptText(text), text)
		mask, err := m.Mask()
		require.NoError(t, err)
		for id := range v.Size() {
			alone := *m
			require.Equal(t, alone.Accept(id), mask[id>>6]>>(id&63)&1 != 0, "%q after %q", v.text(id), text)
		}
	}
}
