package generate

import (
	"strings"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// mark precedes a special token that is written in a message, while the template
// runs, which keeps it. Marks that messages contain are dropped.
const mark = chat.Mark

// marker tracks special tokens in messages through the template to their places in
// the text.
type marker struct{ tokenizer *tokenizer.Tokenizer }

// add marks the special tokens in a text.
func (m *marker) add(text string) string {
	text = strings.ReplaceAll(text, mark, "")
	var b strings.Builder
	done := 0
	for _, at := range m.tokenizer.SpecialAt(text) {
		b.WriteString(text[done:at] + mark)
		done = at
	}
	if done == 0 && b.Len() == 0 {
		return text
	}
	return b.String() + text[done:]
}

// remove takes the marks out of a rendered text, and returns where they were.
func (m *marker) remove(text string) (string, []int) {
	if !strings.Contains(text, mark) {
		return text, nil
	}
	var b strings.Builder
	var at []int
	for i, part := range strings.Split(text, mark) {
		if i > 0 {
			at = append(at, b.Len())
		}
		b.WriteString(part)
	}
	return b.String(), at
}
