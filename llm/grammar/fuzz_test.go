package grammar

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is compiled: it is refused, or a text that its masks allow can go on until it ends or takes too much work.
func FuzzGrammar(f *testing.F) {
	for _, seed := range []string{
		`{"type": "object", "properties": {"a": {"pattern": "^\\w+$", "maxLength": 9}, "b": {"$ref": "#"}}, "required": ["a"]}`,
		`{"prefixItems": [{"format": "date"}, {"enum": [1, "x"]}], "items": {"minimum": 3.5}, "maxItems": 4}`,
		`{"propertyNames": {"pattern": "a|b"}, "additionalProperties": {"oneOf": [{"type": "null"}, {"const": 3}]}}`,
		`^(a|b)*\b[^a-z]{2,3}(?i:ß)$`, `\d{4}-(0[1-9]|1[0-2])`, `\W\S\D[\s\w]+?`, `^(?=.*\d)(?![a-c]+$)[^x]*`,
		"root ::= a | \"x\" root?\na ::= [^a-c]{1,3} (\"é\" | .)* # comment\n",
	} {
		for kind := range byte(4) {
			f.Add(kind, seed)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		v := bytesAlone("ab", "12", `": `, "é\"")
		var g *Grammar
		var err error
		switch kind % 4 {
		case 0:
			g, err = Compile([]byte(text), v, Options{})
		case 1:
			pattern, _ := json.Marshal(text)
			g, err = Compile([]byte(`{"pattern": `+string(pattern)+`}`), v, Options{})
		case 2:
			g, err = CompileRegexp(text, v, Options{})
		case 3:
			g, err = CompileGBNF(text, v, Options{})
		}
		if err != nil {
			require.True(t, errors.Is(err, ErrSchema) || errors.Is(err, ErrSyntax), "%v", err)
			return
		}
		m := g.Matcher()
		for n := range 40 {
			mask, err := m.Mask()
			if err != nil {
				require.ErrorIs(t, err, ErrWork)
				return
			}
			var allowed []int
			for id := range v.Size() {
				if mask[id/64]>>(id%64)&1 == 1 {
					allowed = append(allowed, id)
				}
			}
			require.True(t, canEnd(&g.automaton, m.at))
			require.Equal(t, m.Ended(), m.Complete() && allowed == nil)
			if m.Ended() {
				return
			}
			require.NotEmpty(t, allowed)
			require.True(t, m.Accept(allowed[(n*31+len(text))%len(allowed)]))
		}
	})
}
