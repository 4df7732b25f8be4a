package generate

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// assistant is the role of messages that the model wrote.
const assistant = "assistant"

// marker finds control tokens that messages wrote, or took part in, in the text that a template
// makes of them. It puts marks around every character of a message with which such a token may
// begin or end. The template keeps them with the character, whatever it deletes or joins. Marks
// that messages contain are dropped.
type marker struct {
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template
	written   map[int]bool  // whether the template may write a token by itself
	edges     map[rune]bool // first and last characters of control tokens
}

// edgesOf returns the first and the last character of a token that are not white space, and where
// the first one begins and the last one ends. A token of white space has none.
func edgesOf(token string) (first, last rune, start, end int) {
	end = len(strings.TrimSpace(token))
	start = strings.Index(token, strings.TrimSpace(token))
	end += start
	first, _ = utf8.DecodeRuneInString(token[start:end])
	last, _ = utf8.DecodeLastRuneInString(token[start:end])
	return first, last, start, end
}

// findEdges collects the characters to mark.
func (m *marker) findEdges() {
	m.edges = map[rune]bool{}
	for text, one := range m.tokenizer.AllAdded() {
		first, last, start, end := edgesOf(text)
		if start < end && !(m.edges[first] && m.edges[last]) && m.controls("", one) {
			m.edges[first], m.edges[last] = true, true
		}
	}
}

// add marks a text of a message. The marks of the assistant are double.
func (m *marker) add(role, text string) string {
	if m.edges == nil {
		m.findEdges()
	}
	text = strings.NewReplacer(chat.MarkBegin, "", chat.MarkEnd, "").Replace(text)
	begin, end := chat.MarkBegin, chat.MarkEnd
	if role == assistant {
		begin, end = begin+begin, end+end
	}
	var b strings.Builder
	done := 0
	for i, r := range text {
		if m.edges[r] {
			_, size := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[done:i] + begin + text[i:i+size] + end)
			done = i + size
		}
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

// remove takes the marks out of a rendered text, and returns where the control tokens begin that
// begin or end with a marked character. Those are of no use once the context is done.
func (m *marker) remove(ctx context.Context, text string) (string, []int) {
	if !strings.Contains(text, chat.MarkBegin) && !strings.Contains(text, chat.MarkEnd) {
		return text, nil
	}
	clean, begins, ends := unmark(text)
	role := func(marks int) string {
		if marks == 2 {
			return assistant
		}
		return ""
	}
	var at []int
	n := 0
	for one := range m.tokenizer.AddedIn(clean) {
		if n++; n&0xffff == 0 && ctx.Err() != nil {
			break
		}
		if len(at) > 0 && at[len(at)-1] == one.Start {
			continue
		}
		_, _, start, end := edgesOf(clean[one.Start:one.End])
		before, after := begins[one.Start+start], ends[one.Start+end]
		if before > 0 && m.controls(role(before), one) || after > 0 && m.controls(role(after), one) {
			at = append(at, one.Start)
		}
	}
	return clean, at
}

// unmark takes the marks out of a text, and returns how many were before and after a character, by
// its start and its end.
func unmark(text string) (clean string, begins, ends map[int]int) {
	var b strings.Builder
	begins, ends = map[int]int{}, map[int]int{}
	begun, ended := 0, 0 // of the marks since the last character
	for done := 0; ; {
		rest := text[done:]
		next := strings.IndexAny(rest, chat.MarkBegin+chat.MarkEnd)
		if next != 0 { // there are other characters, or none
			if begun > 0 && rest != "" {
				begins[b.Len()] = begun
			}
			if ended > 0 {
				ends[b.Len()] = ended
			}
			begun, ended = 0, 0
		}
		if next < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:next])
		done += next + len(chat.MarkBegin)
		switch {
		case strings.HasPrefix(rest[next:], chat.MarkBegin):
			begun++
		case begun > 0: // the character between them is gone
			begun--
		default:
			ended++
		}
	}
	return b.String(), begins, ends
}
