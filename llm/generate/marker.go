package generate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// assistant is the role of messages that the model wrote.
const assistant = "assistant"

// marker tracks control tokens in messages through the template to their places in the
// text. It puts marks around them, which the template keeps, and which count only where a
// token is still between them. Marks that messages contain are dropped.
type marker struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template
	written   map[int]bool // whether the template may write a token by itself
	composes  bool         // normalization may make tokens of a text
}

// boundary is a place in a text where a mark is put.
type boundary struct {
	at   int
	text string
}

// add marks the control tokens in a text of a message.
func (m *marker) add(role, text string) string {
	text = strings.NewReplacer(chat.MarkBegin, "", chat.MarkEnd, "").Replace(text)
	m.composes = m.composes || m.tokenizer.Composes(text)
	var marks []boundary
	for one := range m.tokenizer.AddedIn(text) {
		if m.controls(role, one) {
			marks = append(marks, boundary{one.Start, chat.MarkBegin}, boundary{one.End, chat.MarkEnd})
		}
	}
	if marks == nil {
		return text
	}
	slices.SortFunc(marks, func(a, b boundary) int { // where one token ends, the next one may begin
		return cmp.Or(a.at-b.at, -strings.Compare(a.text, b.text))
	})
	var b strings.Builder
	done := 0
	for _, one := range slices.Compact(marks) {
		b.WriteString(text[done:one.at] + one.text)
		done = one.at
	}
	return b.String() + text[done:]
}

// controls reports whether only the template may write a token: one that is special or that
// it writes by itself, like <|User|>. The assistant's own messages may have the latter, which
// are around thoughts and tool calls. White space never controls anything.
func (m *marker) controls(role string, one tokenizer.Added) bool {
	if one.Special || role == assistant {
		return one.Special
	}
	written, known := m.written[one.ID]
	if !known {
		token, _ := m.tokenizer.Token(one.ID)
		written = strings.TrimSpace(token) != "" && m.template.Writes(token)
		if m.written == nil {
			m.written = map[int]bool{}
		}
		m.written[one.ID] = written
	}
	return written
}

// remove takes the marks out of a rendered text, and returns where the marked tokens are.
func (m *marker) remove(text string) (string, []int) {
	if !strings.Contains(text, chat.MarkBegin) && !strings.Contains(text, chat.MarkEnd) {
		return text, nil
	}
	var b strings.Builder
	var at, open []int // places of tokens; places where one may begin
	for text != "" {
		next := strings.IndexAny(text, chat.MarkBegin+chat.MarkEnd)
		if next < 0 {
			break
		}
		b.WriteString(text[:next])
		begins := strings.HasPrefix(text[next:], chat.MarkBegin)
		text = text[next+len(chat.MarkBegin):]
		if begins {
			if len(open) == 0 || open[len(open)-1] < b.Len() {
				open = append(open, b.Len())
			}
			continue
		}
		open = slices.DeleteFunc(open, func(start int) bool {
			whole, longer := m.tokenizer.IsAdded(b.String()[start:])
			if whole {
				at = append(at, start)
			}
			return whole || !longer || start == b.Len()
		})
	}
	b.WriteString(text)
	slices.Sort(at)
	return b.String(), slices.Compact(at)
}
