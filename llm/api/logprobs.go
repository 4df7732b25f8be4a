package api

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// chatLogprobs is the form of log-probabilities in chats. Every token has an entry,
// including those of thoughts and tags.
type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	tokenLogprob
	Top []tokenLogprob `json:"top_logprobs"`
}

type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // which need not be whole characters
}

// textLogprobs is the form of log-probabilities in texts.
type textLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []float64            `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// never is OpenAI's value for an impossible token; JSON has no infinity.
const never = -9999

func (g *generation) decode(id int) string {
	return g.tokenizer.Decode([]int{id}, tokenizer.KeepSpecial)
}

func (g *generation) tokenLogprob(l generate.Logprob) tokenLogprob {
	out := tokenLogprob{Token: g.decode(l.ID), Logprob: max(l.Value, never), Bytes: []int{}}
	for _, b := range []byte(g.tokenizer.Bytes(l.ID)) {
		out.Bytes = append(out.Bytes, int(b))
	}
	return out
}

// named returns the text of a token, or its bytes in OpenAI's form if they are not whole characters: different tokens
// have different names.
func (g *generation) named(id int) string {
	text := g.tokenizer.Bytes(id)
	if utf8.ValidString(text) {
		return g.decode(id)
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for i := range len(text) {
		fmt.Fprintf(&b, `\x%02x`, text[i])
	}
	return b.String()
}

// textPlace follows the tokens of a text, and tells where in it each begins, in characters.
type textPlace struct {
	decoder *tokenizer.Decoder
	at      int
}

func (g *generation) newTextPlace() *textPlace {
	return &textPlace{decoder: g.tokenizer.NewDecoder(tokenizer.SkipSpecial)}
}

// push returns where a token begins. One that continues a character begins where that does.
func (p *textPlace) push(id int) int {
	at := p.at
	p.at += utf8.RuneCountInString(p.decoder.Push(id))
	return at
}

// logprobsOf returns the log-probabilities in the form of the request, nil if it
// does not ask for them. place is where the tokens' text begins, and is advanced
// past it.
func (g *generation) logprobsOf(all []generate.Logprob, place *textPlace) any {
	switch {
	case !g.logprobs:
		return nil
	case g.chat:
		out := &chatLogprobs{Content: []chatLogprob{}}
		for _, l := range all {
			one := chatLogprob{g.tokenLogprob(l), []tokenLogprob{}}
			for _, top := range l.Top {
				one.Top = append(one.Top, g.tokenLogprob(top))
			}
			out.Content = append(out.Content, one)
		}
		return out
	}
	out := &textLogprobs{Tokens: []string{}, Logprobs: []float64{}, Top: []map[string]float64{}, Offsets: []int{}}
	for _, l := range all {
		name, value, top := g.named(l.ID), max(l.Value, never), map[string]float64{}
		for _, t := range l.Top {
			top[g.named(t.ID)] = max(t.Value, never)
		}
		if len(l.Top) > 0 {
			top[name] = value // OpenAI's has the chosen token, too
		}
		out.Tokens, out.Logprobs, out.Top = append(out.Tokens, name), append(out.Logprobs, value), append(out.Top, top)
		out.Offsets = append(out.Offsets, place.push(l.ID))
	}
	return out
}
