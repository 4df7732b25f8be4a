package grammar

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is known is bounded, is not kept by the grammar once it is forgotten, and texts continue
// correctly after that.
func TestStatesAreForgotten(t *testing.T) {
	g := compile(t, `true`, Options{})
	const depth = 100 // of nested values
	heap := func() uint64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	before := heap()
	first := g.Matcher()
	_, err := first.Mask()
	require.NoError(t, err)
	for text := range uint64(60) {
		m := g.Matcher()
		r := rand.New(rand.NewPCG(text, 1))
		var closing []string
		for range depth {
			one := r.IntN(2)
			require.True(t, m.AcceptText([]string{"[", `{"":`}[one]))
			_, err := m.Mask()
			require.NoError(t, err)
			closing = append(closing, []string{"]", "}"}[one])
			require.LessOrEqual(t, g.automaton.bytes, mostBytes+1<<20)
		}
		require.True(t, m.AcceptText("0"))
		for _, one := range slices.Backward(closing) {
			require.True(t, m.AcceptText(one))
		}
		require.True(t, m.Complete())
	}
	require.Positive(t, g.automaton.generation, "nothing was forgotten")
	require.Less(t, heap()-min(before, heap()), uint64(4*mostBytes))
	require.True(t, first.AcceptText("[]"))
	runtime.KeepAlive(g)
}

// Ambiguous grammars, whose stacks are as many as there are combinations of readings, take no more
// time and memory than others.
func TestAmbiguousSchemas(t *testing.T) {
	var chain strings.Builder
	const links = 100
	for i := range links {
		fmt.Fprintf(&chain, `"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	g := compile(t, fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s"a%d":{"type":"null"}}}`, chain.String(), links), Options{})
	require.True(t, accepts(g, "null"))
	require.False(t, accepts(g, "0"))

	const depth = 1000
	g = compile(t, `{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"}}]}`, Options{})
	require.True(t, accepts(g, strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	require.False(t, accepts(g, strings.Repeat("[", depth)+strings.Repeat("]", depth-1)))

	node := func(kind string) string {
		return `{"type":"object","properties":{"left":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"kind":{"const":"` + kind + `"}},"required":["left","kind"]}`
	}
	g = compile(t, `{"anyOf":[`+node("a")+","+node("b")+","+node("c")+`]}`, Options{})
	text := "null"
	for i := range depth {
		text = fmt.Sprintf(`{"left":%s,"kind":"%c"}`, text, "abc"[i%3])
	}
	require.True(t, accepts(g, text))
	require.False(t, accepts(g, strings.Replace(text, `"b"`, `"d"`, 1)))

	choices := slices.Repeat([]string{`{"type":"array","items":{"$ref":"#"}}`}, 30)
	g = compile(t, `{"anyOf":[`+strings.Join(choices, ",")+`]}`, Options{})
	m := g.Matcher()
	require.True(t, m.AcceptText(strings.Repeat("[", depth)))
	mask, err := m.Mask()
	require.NoError(t, err)
	require.NotZero(t, mask['['>>6]>>('['&63)&1)
}

// optionalStrings is an object of n properties, p0, p1, …, none of which is required.
func optionalStrings(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
	}
	return `{"type":"object","properties":{` + strings.Join(all, ",") + `}}`
}

// Before a property of many that may all come next, a mask takes work in proportion to their
// number, and not to its square.
func TestManyProperties(t *testing.T) {
	const n = 1000
	g, err := Compile([]byte(optionalStrings(n)), manyTokens(), Options{})
	require.NoError(t, err)
	m, generation := g.Matcher(), g.automaton.generation
	for _, text := range []string{"{", `"p1": "`, `",`} {
		require.True(t, m.AcceptText(text))
		mask, err := m.Mask()
		require.NoError(t, err)
		require.NotZero(t, mask['"'>>6]>>('"'&63)&1)
		require.Less(t, g.automaton.work, 200*n)
	}
	require.Equal(t, generation, g.automaton.generation, "nothing was forgotten")
}

// A mask that takes too much work is an error, and leaves neither its memory nor a wrong state.
func TestMaskOfTooMuchWork(t *testing.T) {
	const n = 1000
	var tokens []string // each has a state of its own after it, before all later properties
	for i := range n {
		tokens = append(tokens, fmt.Sprintf(`{"p%d":"",`, i))
	}
	g, err := Compile([]byte(optionalStrings(n)), bytesAlone(tokens...), Options{})
	require.NoError(t, err)
	m := g.Matcher()
	_, err = m.Mask()
	require.ErrorIs(t, err, ErrWork)
	require.Less(t, g.automaton.work, mostWork+100*n, "no more than one byte beyond the limit")
	require.Zero(t, g.automaton.bytes)
	require.True(t, m.AcceptText(`{"p1":"","p2":"x"`))
	mask, err := m.Mask()
	require.NoError(t, err)
	require.NotZero(t, mask['}'>>6]>>('}'&63)&1)
}

// A single byte may be too much work.
func TestByteOfTooMuchWork(t *testing.T) {
	g, err := CompileGBNF("root ::= "+strings.Repeat(`"a"? `, 15_000), bytesAlone(), Options{})
	require.NoError(t, err)
	m := g.Matcher()
	_, err = m.Mask()
	require.ErrorIs(t, err, ErrWork)
	require.False(t, m.AcceptText("a"))
	require.Less(t, g.automaton.work, 2*mostWork)
	require.Zero(t, g.automaton.bytes)
	require.Equal(t, g.start, m.at)
}

// manyTokens is a vocabulary as large as those of models.
func manyTokens() *Vocabulary {
	var more []string
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 150_000 {
		more = append(more, fmt.Sprintf("%x", r.Uint32()>>(i%20))+[]string{"", "\"", " x"}[i%3])
	}
	return bytesAlone(more...)
}

func BenchmarkMaskOfAString(b *testing.B) {
	v := manyTokens()
	for b.Loop() {
		g, err := Compile([]byte(`{"type":"string"}`), v, Options{})
		require.NoError(b, err)
		m := g.Matcher()
		m.AcceptText(`"`)
		_, err = m.Mask()
		require.NoError(b, err)
	}
}
