package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// divide pushes a text in two pieces, cut at one place, and gathers the fields.
func divide(text string, cut int, thinkingFirst, tools bool) (reasoning, content string, calls []string) {
	p := newParts(thinkingFirst, tools)
	for _, one := range append(p.push(text[:cut], false), p.push(text[cut:], true)...) {
		reasoning += one.reasoning
		content += one.content
		if one.call != nil {
			calls = append(calls, one.call.Function.Name+one.call.Function.Arguments)
		}
	}
	return reasoning, content, calls
}

func TestParts(t *testing.T) {
	const call = `<tool_call>` + "\n" + `{"name": "f", "arguments": {"b": [1, 2], "a": "x"}}` + "\n" + `</tool_call>`
	for _, c := range []struct {
		text                 string
		thinkingFirst, tools bool
		reasoning, content   string
		calls                []string
	}{
		{text: "Hello", content: "Hello"},
		{text: "  Hello ", content: "  Hello "},
		{text: ""},
		{text: "<think>\nHm.\n</think>\n\nHello", reasoning: "Hm.", content: "Hello"},
		{text: "<think>\n\n</think>\n\nHello", content: "Hello"},
		{text: "\nHm.\n</think>\n\nHello", thinkingFirst: true, reasoning: "Hm.", content: "Hello"},
		{text: "<think>\nHm. </thin", reasoning: "Hm. </thin"},
		{text: "<thin", content: "<thin"},
		{text: "a <think> b </think>", content: "a <think> b </think>"},
		{text: call, content: call},
		{text: call, tools: true, calls: []string{`f{"b":[1,2],"a":"x"}`}},
		{text: "<think>a</think>\n\nb\n" + call + "\n" + call + "\n", tools: true, reasoning: "a", content: "b", calls: []string{`f{"b":[1,2],"a":"x"}`, `f{"b":[1,2],"a":"x"}`}},
		{text: `<tool_call>{"name":"f","arguments":{"a":1,"a":{"b":2,"b":3}}}</tool_call>`, tools: true, calls: []string{`f{"a":1,"a":{"b":2,"b":3}}`}},
		{text: `<tool_call>{"name":"f"}`, tools: true, calls: []string{`f{}`}},
		{text: `<tool_call>{"name":"f","arg`, tools: true, content: `<tool_call>{"name":"f","arg`},
		{text: `<tool_call>{"name":3}</tool_call> x`, tools: true, content: `<tool_call>{"name":3}</tool_call> x`},
		{text: `<tool_call>{"name":"f","arguments":"x"}</tool_call>`, tools: true, content: `<tool_call>{"name":"f","arguments":"x"}</tool_call>`},
		{
			text: `<tool_call>{"name":"f","arguments":{"s":"a </tool_call> b</tool_call>"}}</tool_call>x`, tools: true,
			content: "x", calls: []string{`f{"s":"a </tool_call> b</tool_call>"}`},
		},
		{text: `<tool_call>{"name":"f","arguments":{"s":"</tool_call>"}}`, tools: true, calls: []string{`f{"s":"</tool_call>"}`}},
		{
			text: `<tool_call>{"name":"f</tool_call> x <tool_call>{"name":"g"}</tool_call>`, tools: true,
			content: `<tool_call>{"name":"f</tool_call> x`, calls: []string{"g{}"},
		},
		{text: `<tool_call>{"name":"f</tool_call> x`, tools: true, content: `<tool_call>{"name":"f</tool_call> x`},
		{text: `<tool_call> </tool_call> x`, tools: true, content: `<tool_call> </tool_call> x`},
		{text: "x <tool", tools: true, content: "x <tool"},
		{text: "x  <tool_call>y</tool_call>.", tools: true, content: "x  <tool_call>y</tool_call>."},
		{text: "x\n\n<tool_call>{y", tools: true, content: "x\n\n<tool_call>{y"},
		{text: "x \n" + call + " \ny <tool_call>z", tools: true, content: "xy <tool_call>z", calls: []string{`f{"b":[1,2],"a":"x"}`}},
	} {
		for cut := range len(c.text) + 1 {
			reasoning, content, calls := divide(c.text, cut, c.thinkingFirst, c.tools)
			require.Equal(t, c.reasoning, reasoning, "%q at %d", c.text, cut)
			require.Equal(t, c.content, content, "%q at %d", c.text, cut)
			require.Equal(t, c.calls, calls, "%q at %d", c.text, cut)
		}
	}
}

// What cannot become a call is text at once; what may still become one is held back.
func TestPartsOfIncompleteCalls(t *testing.T) {
	p := newParts(false, true)
	require.Equal(t, []part{{content: `<tool_call>{"name" 3}</tool_call>`}}, p.push(`<tool_call>{"name" 3}</tool_call>`, false))
	require.Empty(t, p.push(`<tool_call>{"name":"f","arguments":{"s":"</tool_call>`, false))
	out := p.push(`"}}</tool_call>`, false)
	require.Len(t, out, 1)
	require.Equal(t, `{"s":"</tool_call>"}`, out[0].call.Function.Arguments)
}

// Models like Llama call tools by JSON alone: it is a call if it names a tool, and the answer begins with it.
func TestPartsWithoutTags(t *testing.T) {
	for _, c := range []struct {
		text, content string
		calls         []string
	}{
		{text: `{"name": "f", "parameters": {"a": 1}}`, calls: []string{`f{"a":1}`}},
		{text: "\n{ \"type\": \"function\", \"name\": \"f\", \"parameters\": {} }\n", calls: []string{`f{}`}},
		{text: `{"name":"f","arguments":{"a":1}}; {"name":"g","parameters":null}`, calls: []string{`f{"a":1}`, `g{}`}},
		{text: `{"name":"f"} and`, calls: []string{`f{}`}, content: "and"},
		{text: `{"name": "other", "parameters": {}}`, content: `{"name": "other", "parameters": {}}`},
		{text: `{"name": "f", "parameters": "x"}`, content: `{"name": "f", "parameters": "x"}`},
		{text: `{"name": "f", "param`, content: `{"name": "f", "param`},
		{text: `{"city": "f"}`, content: `{"city": "f"}`},
		{text: " {", content: " {"},
		{text: " x", content: " x"},
		{text: `x {"name": "f"}`, content: `x {"name": "f"}`},
		{text: `<tool_call>{"name":"f"}</tool_call>`, calls: []string{"f{}"}},
	} {
		for cut := range len(c.text) + 1 {
			p := newParts(false, true)
			p.bare = map[string]bool{"f": true, "g": true}
			content, calls := "", []string(nil)
			for _, one := range append(p.push(c.text[:cut], false), p.push(c.text[cut:], true)...) {
				content += one.content
				if one.call != nil {
					require.Equal(t, len(calls), *one.call.Index)
					calls = append(calls, one.call.Function.Name+one.call.Function.Arguments)
				}
			}
			require.Equal(t, c.content, content, "%q at %d", c.text, cut)
			require.Equal(t, c.calls, calls, "%q at %d", c.text, cut)
		}
	}
	// JSON that is certainly no call is not held back.
	p := newParts(false, true)
	p.bare = map[string]bool{"f": true}
	require.Empty(t, p.push(`{ "na`, false))
	require.Equal(t, []part{{content: `{ "nation`}}, p.push("tion", false))
}
