package api

import (
	"crypto/rand"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The tags that models like Qwen write around thoughts and tool calls.
const (
	thinkTag, thinkEnd = "<think>", "</think>"
	callTag, callEnd   = "<tool_call>", "</tool_call>"
)

// mostBare is how many bytes of a text are held back because it may be a call without tags.
const mostBare = 64 << 10

const space = " \t\r\n"

// part is a piece of one of an answer's fields.
type part struct {
	reasoning, content string
	call               *toolCall
}

// place is the current part of an answer.
type place int

const (
	atBegin       place = iota // only white space so far
	beforeThought              // white space before thoughts
	inThought
	beforeAnswer // white space before the answer, or what follows a call
	inAnswer
	inCall
)

// parts divides a text that comes in pieces into thoughts, tool calls and the
// answer proper. It holds back anything that may be the beginning of a tag, and
// white space that may precede one.
type parts struct {
	tools bool // whether to recognise calls
	at    place
	held  string
	space string // before the tag of the present call
	tried int    // bytes of held in which no call ends
	calls int
	// The tools that an answer may call by nothing but JSON, as Llama's models do; nil once the
	// answer has other text.
	bare map[string]bool
}

func newParts(thinkingFirst, tools bool) *parts {
	p := &parts{tools: tools}
	if thinkingFirst {
		p.at = beforeThought
	}
	return p
}

// thinking reports whether the next text belongs to thoughts.
func (p *parts) thinking() bool { return p.at == beforeThought || p.at == inThought }

// push adds text and returns the parts that are now certain; end is true for
// the last text.
func (p *parts) push(text string, end bool) []part {
	p.held += text
	var out []part
	for more := true; more; {
		var one part
		if one, more = p.step(end); one != (part{}) {
			out = append(out, one)
		}
	}
	return out
}

// step takes one part from the text held back; more reports that there may be another.
func (p *parts) step(end bool) (out part, more bool) {
	switch p.at {
	case atBegin:
		return part{}, p.begin(end)
	case beforeThought, beforeAnswer:
		p.held = strings.TrimLeft(p.held, space)
		if p.held != "" {
			p.at++
		}
		return part{}, p.held != ""
	case inThought:
		out.reasoning, more = p.until(thinkEnd, beforeAnswer, end)
	case inAnswer:
		if !p.tools {
			out.content, p.held = p.held, ""
			return out, false
		}
		if p.bare != nil {
			if call, open := p.takeBare(end); call != nil || open {
				return part{call: call}, call != nil
			}
			p.bare = nil
		}
		out.content, more = p.until(callTag, inCall, end)
	case inCall:
		return p.takeCall(end)
	}
	return out, more
}

// begin checks whether the text begins with thoughts.
func (p *parts) begin(end bool) bool {
	text := strings.TrimLeft(p.held, space)
	switch {
	case strings.HasPrefix(text, thinkTag):
		p.held, p.at = text[len(thinkTag):], beforeThought
	case strings.HasPrefix(thinkTag, text) && !end:
		return false
	default:
		p.at = inAnswer
	}
	return true
}

// until returns the text up to a tag, and moves to the next place if the tag is there.
func (p *parts) until(tag string, next place, end bool) (text string, found bool) {
	before, after, found := strings.Cut(p.held, tag)
	if found {
		text = strings.TrimRight(before, space)
		p.held, p.at, p.space = after, next, before[len(text):]
		return text, true
	}
	if end {
		text, p.held = p.held, ""
		return text, false
	}
	keep := len(tag) - 1
	for !strings.HasSuffix(p.held, tag[:keep]) {
		keep--
	}
	text = strings.TrimRight(p.held[:len(p.held)-keep], space)
	p.held = p.held[len(text):]
	return text, false
}

// takeCall takes a call when it is complete. Anything else between the tags is text. An end
// tag within an incomplete JSON value may be part of a string, and another one may follow.
func (p *parts) takeCall(end bool) (part, bool) {
	for {
		length := strings.Index(p.held[p.tried:], callEnd)
		if length < 0 {
			break
		}
		length += p.tried
		call, incomplete := parseCall(p.held[:length])
		if call != nil {
			return p.called(call, p.held[length+len(callEnd):])
		}
		if !incomplete {
			return p.noCall()
		}
		p.tried = length + len(callEnd)
	}
	if !end {
		return part{}, false
	}
	if call, _ := parseCall(p.held); call != nil {
		return p.called(call, "")
	}
	return p.noCall()
}

// takeBare takes a call without tags, {"name": …, "parameters": {…}}, when the answer has ended;
// open reports that the text may still become one. More calls may follow, after a semicolon or
// white space.
func (p *parts) takeBare(end bool) (call *toolCall, open bool) {
	text := strings.TrimLeft(p.held, space)
	if !end {
		if text == "" {
			return nil, true
		}
		rest := strings.TrimLeft(text[1:], space)
		for _, name := range []string{`"name"`, `"type"`} {
			open = open || strings.HasPrefix(rest, name) || strings.HasPrefix(name, rest)
		}
		return nil, open && text[0] == '{' && len(text) <= mostBare
	}
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	value, err := d.ReadValue()
	var body struct {
		Name       string         `json:"name"`
		Arguments  jsontext.Value `json:"arguments"`
		Parameters jsontext.Value `json:"parameters"`
	}
	if err != nil || json.Unmarshal(value, &body, jsontext.AllowDuplicateNames(true)) != nil || !p.bare[body.Name] {
		return nil, false
	}
	if !given(body.Arguments) {
		body.Arguments = body.Parameters
	}
	if call = newCall(body.Name, body.Arguments); call != nil {
		p.count(call)
		p.held = strings.TrimLeft(text[d.InputOffset():], space+";")
	}
	return call, false
}

// count numbers a call.
func (p *parts) count(call *toolCall) {
	index := p.calls
	call.Index = &index
	p.calls++
}

// called ends a call, after which there is more text.
func (p *parts) called(call *toolCall, after string) (part, bool) {
	p.count(call)
	p.at, p.held, p.tried = beforeAnswer, after, 0
	return part{call: call}, true
}

// noCall turns what looked like a call into text, up to the first end tag.
func (p *parts) noCall() (part, bool) {
	body, after, found := strings.Cut(p.held, callEnd)
	p.at, p.held, p.tried = inAnswer, after, 0
	text := p.space + callTag + body
	if found {
		text += callEnd
	}
	return part{content: text}, true
}

// parseCall reads {"name": …, "arguments": {…}}; it returns nil for anything else, which may
// be an incomplete JSON value. Names may come twice: grammars do not prevent that.
func parseCall(text string) (call *toolCall, incomplete bool) {
	var body struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(text), &body, jsontext.AllowDuplicateNames(true)); err != nil || body.Name == "" {
		return nil, errors.Is(err, io.ErrUnexpectedEOF) && strings.Trim(text, space) != ""
	}
	return newCall(body.Name, body.Arguments), false
}

// newCall returns a call, nil if the arguments are neither an object nor null.
func newCall(name string, arguments jsontext.Value) *toolCall {
	switch arguments.Kind() {
	case '{':
	case 0, 'n':
		arguments = jsontext.Value("{}")
	default:
		return nil
	}
	if arguments.Compact() != nil {
		return nil
	}
	call := &toolCall{ID: "call_" + rand.Text(), Type: "function"}
	call.Function.Name, call.Function.Arguments = name, string(arguments)
	return call
}
