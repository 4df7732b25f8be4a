package grammar

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGBNF(t *testing.T) {
	for text, texts := range map[string][2][]string{
		`root ::= "yes" | "no"`: {{"yes", "no"}, {"", "yesno", "Yes"}},
		"# arithmetic\nroot  ::= (expr \"=\" ws term \"\\n\")+\r\nexpr  ::= term ([-+*/] term)*\nterm  ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum   ::= [0-9]+ ws\nws    ::= [ \\t\\n]*": {
			{"x=1\n", "(a_1 +2)*3 = 5\nx=y\n"}, {"x=1", "=1\n", "x+=1\n", "(x=1\n"},
		},
		"root ::=\n  # which begins on the next line\n  item{2,3} |\n  \"none\"\nitem ::= \"a\"{2} \"b\"{,1} \"c\"{0,}": {{"aaaa", "aabaacc", "aaaaaa", "none"}, {"aa", "aaa", "aaaaaaaa", "aabb"}},
		`root ::= [^"\\\n] . "\x41\u00e9\U0001F600\"\t"`:                                                                {{"äßAé😀\"\t", "a\nAé😀\"\t"}, {"\"aAé😀\"\t", "aaAé"}},
		"root ::= ( \"a\"\n | \"b\"\n ) \"\" last # end\n\nlast ::= [a\\]^-] | [0-9a-]":                                 {{"a]", "b^", "a-", "b5"}, {"ab", "c-", "a"}},
		`root ::= "(" root? ")"`:         {{"()", "((()))"}, {"(", "())"}},
		`root ::= "a"? ("b"? "c")* "d"?`: {{"a", "d", "abccd"}, {"b", "dd"}},
	} {
		g, err := CompileGBNF(text, bytesAlone(), Options{})
		require.NoError(t, err, text)
		for _, s := range texts[0] {
			require.True(t, accepts(g, s), "%s should take %q", text, s)
		}
		for _, s := range texts[1] {
			require.False(t, accepts(g, s), "%s should not take %q", text, s)
		}
	}
	g, err := CompileAny(bytesAlone(), Alternative{GBNF: `root ::= "a"`, Options: Options{Before: "<", After: ">"}}, Alternative{Regexp: "b+"}, Alternative{Schema: []byte(`{"type": "null"}`)})
	require.NoError(t, err)
	for _, s := range []string{"<a>", "bb", "null"} {
		require.True(t, accepts(g, s), s)
	}
	require.False(t, accepts(g, "a"))
}

func TestRefusalsOfGBNF(t *testing.T) {
	for text, reason := range map[string]string{
		"":                               "no rule root",
		"# nothing":                      "no rule root",
		`a ::= "b"`:                      "no rule root",
		"root ::= x\n\nx ::= y":          "line 3: there is no rule y",
		"root ::= \"a\nb\"":              "line 1: a text or a set has no end",
		"\nroot ::= [a":                  "line 2: a text or a set has no end",
		"root ::= [b-a]":                 "line 1: 'a' comes before 'b'",
		"root ::= (\"a\"":                ") is missing",
		"root ::= \"a\" )":               `unexpected ')'`,
		"root ::= \"a\" <[100]>":         `unexpected '<'`,
		"root = \"a\"":                   "::= is missing after root",
		"root ::= \"a\"\nroot ::= \"b\"": "line 2: the rule root comes twice",
		"::= \"a\"":                      "begins with its name",
		`root ::= "\q"`:                  `\q is not supported`,
		`root ::= "\x4"`:                 "is not a character",
		`root ::= "\ud800"`:              "is not a character",
		`root ::= "\U00110000"`:          "is not a character",
		`root ::= "\`:                    `\ at the end of the line`,
		`root ::= "a"{`:                  "} is missing",
		`root ::= "a"{}`:                 "{} is not a number",
		`root ::= "a"{-1}`:               "{-1} is not a number",
		`root ::= "a"{3,2}`:              "3 exceeds 2",
		`root ::= "a"{99999999}`:         "is not a number",
		`root ::= "a"{30000}{30000}`:     "unexpected '{'",
		`root ::= ("a"{30000} "b"{30000}){30000} "c"{30000} "d"{30000}`: "too large",
		"root ::= root \"a\" | \"a\"":                                   "refers to itself before",
		`root ::= ("a"?)*`:                                              "or repeats what may be empty",
		`root ::= root`:                                                 "no finite value",
		`root ::= []`:                                                   "no finite value",
		"root ::= " + strings.Repeat("(", 99):                           "levels",
		"root ::= \"\xff\"":                                             "not UTF-8",
		strings.Repeat("#", 200000):                                     "bytes are more than",
	} {
		_, err := CompileGBNF(text, bytesAlone(), Options{})
		require.ErrorIs(t, err, ErrSyntax, text)
		require.ErrorContains(t, err, reason, text)
	}
}
