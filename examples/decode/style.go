package main

import (
	"io"
	"os"
	"strings"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// style distinguishes text by colour on a terminal; elsewhere it does nothing.
type style struct{ colours bool }

// styleOf is the style for an output. NO_COLOR (no-color.org) and a terminal
// that calls itself dumb turn colours off.
func styleOf(out io.Writer) style {
	return style{cli.IsTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s style) bold(text string) string { return s.set("\x1b[1m", text) }
func (s style) dim(text string) string  { return s.set("\x1b[2m", text) }

// set begins and ends the attribute, so that anything written next is plain.
func (s style) set(attribute, text string) string {
	if !s.colours || text == "" {
		return text
	}
	return attribute + text + "\x1b[0m"
}

// The tags around a model's thoughts before its answer.
const (
	thinkBegin = "<think>"
	thinkEnd   = "</think>"
)

// thoughts writes an answer as it comes, and dims the model's thoughts.
type thoughts struct {
	style    style
	write    func(string) error
	thinking bool
	held     string // it may be the beginning of a tag
}

// thoughtsAfter writes the answer to a prompt, which some templates end within thoughts.
func (a *app) thoughtsAfter(prompt []int) *thoughts {
	return &thoughts{style: a.style, write: a.print, thinking: a.endsInThoughts(prompt)}
}

// endsInThoughts reports whether a prompt ends with the tag that begins thoughts.
func (a *app) endsInThoughts(prompt []int) bool {
	end := a.folder.Tokenizer.Decode(prompt[max(0, len(prompt)-8):], tokenizer.KeepSpecial)
	return strings.HasSuffix(strings.TrimSpace(end), thinkBegin)
}

// closeThoughts ends thoughts that an answer has not ended. begun: the prompt began them.
func closeThoughts(answer string, begun bool) string {
	begun = begun || strings.HasPrefix(strings.TrimSpace(answer), thinkBegin)
	if !begun || strings.Contains(answer, thinkEnd) {
		return answer
	}
	return answer + "\n" + thinkEnd + "\n\n"
}

// add writes the next piece of the answer.
func (t *thoughts) add(text string) error {
	if !t.style.colours {
		return t.write(text)
	}
	text = t.held + text
	t.held = ""
	for {
		tag := thinkBegin
		if t.thinking {
			tag = thinkEnd
		}
		at := strings.Index(text, tag)
		if at < 0 {
			keep := len(text) - overlap(text, tag)
			t.held = text[keep:]
			return t.put(text[:keep])
		}
		end := at
		if t.thinking {
			end += len(tag) // dim, too
		}
		if err := t.put(text[:end]); err != nil {
			return err
		}
		t.thinking = !t.thinking
		if text = text[end:]; t.thinking {
			// The tag that begins is dim as well: it is written with what follows.
			if err := t.put(tag); err != nil {
				return err
			}
			text = text[len(tag):]
		}
	}
}

// end writes what was held back.
func (t *thoughts) end() error {
	text := t.held
	t.held = ""
	return t.put(text)
}

func (t *thoughts) put(text string) error {
	if text == "" {
		return nil
	}
	if t.thinking {
		text = t.style.dim(text)
	}
	return t.write(text)
}

// overlap is the length of the longest suffix of text that is a prefix of tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
