package main

import (
	"strings"

	"github.com/kompute-go/kompute-go/llm/generate"
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
	Bytes   []int   `json:"bytes"` // null for a token that is a part of a character
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

func (g *generation) tokenLogprob(l generate.Logprob) tokenLogprob {
	out := tokenLogprob{Token: g.decode(l.ID), Logprob: max(l.Value, never)}
	if !strings.ContainsRune(out.Token, '\uFFFD') {
		out.Bytes = []int{}
		for _, b := range []byte(out.Token) {
			out.Bytes = append(out.Bytes, int(b))
		}
	}
	return out
}

// logprobsOf returns the log-probabilities in the form of the request, nil if it
// does not ask for them. offset is where the tokens' text begins, and is advanced
// past it.
func (g *generation) logprobsOf(all []generate.Logprob, offset *int) any {
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
		one := g.tokenLogprob(l)
		top := map[string]float64{}
		for _, t := range l.Top {
			top[g.decode(t.ID)] = max(t.Value, never)
		}
		out.Tokens, out.Logprobs, out.Top = append(out.Tokens, one.Token), append(out.Logprobs, one.Logprob), append(out.Top, top)
		out.Offsets = append(out.Offsets, *offset)
		*offset += len([]rune(one.Token))
	}
	return out
}
