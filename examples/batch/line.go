package main

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// question is a line of the input: a text to continue, or a conversation.
type question struct {
	ID       string    `json:"id"` // comes back with the answer
	Prompt   string    `json:"prompt"`
	Messages []message `json:"messages"`

	MaxTokens int      `json:"max_tokens"`
	Stop      []string `json:"stop"`
	// The defaults are those of the model's generation_config.json. The default
	// seed is derived from the ID, so that a line that is retried has the same
	// answer.
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	MinP        *float64 `json:"min_p"`
	TopK        *int     `json:"top_k"`
	Seed        *uint64  `json:"seed"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answer is a line of the output.
type answer struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Finish string `json:"finish_reason"` // as in generate.Result
	// Numbers of tokens:
	PromptTokens    int `json:"prompt_tokens"`
	GeneratedTokens int `json:"generated_tokens"`
}

// failure is a line of the file of failures.
type failure struct {
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason"`
	Line   string `json:"line"` // as it was read
	// If the line is not UTF-8, JSON cannot have it as it was read. Then these are its bytes.
	Bytes []byte `json:"line_base64,omitempty"`
}

// newFailure returns what is written of a line that cannot be answered.
func newFailure(q *question, line string, reason error) failure {
	f := failure{ID: q.ID, Reason: reason.Error(), Line: line}
	if !utf8.ValidString(line) {
		f.Bytes = []byte(line)
	}
	return f
}

// byteOrderMark begins a file that some editors have written.
const byteOrderMark = "\ufeff"

// parse reads a line, strictly: names and texts count as they are written. The question has
// the line's ID if that can be read, even if the rest is wrong. It does not know which line is
// the first of a file, so it ignores a byte order mark before any of them.
func parse(line string) (*question, error) {
	q := &question{}
	if !utf8.ValidString(line) {
		return q, errors.New("invalid JSON: the line is not UTF-8")
	}
	text := []byte(strings.TrimPrefix(line, byteOrderMark))
	err := json.Unmarshal(text, q, json.RejectUnknownMembers(true))
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		err = errors.New("an empty line")
	case err != nil:
		q = &question{ID: idOf(text)}
	case q.ID == "":
		err = errors.New(`no "id"`)
	case (q.Prompt == "") == (len(q.Messages) == 0):
		err = errors.New(`one of "prompt" and "messages" is needed`)
	case q.MaxTokens < 0:
		err = fmt.Errorf(`"max_tokens" %d is negative`, q.MaxTokens)
	}
	return q, err
}

// idOf returns the ID of a line of valid JSON whose other fields may be wrong, or "".
func idOf(line []byte) string {
	var one struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(line, &one) != nil {
		return ""
	}
	return one.ID
}

// conversation returns the messages in the form for a chat template.
func (q *question) conversation() []chat.Message {
	var out []chat.Message
	for _, m := range q.Messages {
		out = append(out, chat.Message{Role: m.Role, Content: m.Content})
	}
	return out
}

// sampling returns how the answer's tokens are chosen.
func (q *question) sampling(g *checkpoint.Generation) sample.Params {
	usual := 1.0 // the temperature of a model that is to be sampled, if it recommends none
	if !g.DoSample {
		g, usual = &checkpoint.Generation{}, 0
	}
	p := sample.Params{
		Temperature: first(q.Temperature, g.Temperature, &usual), TopP: first(q.TopP, g.TopP),
		MinP: first(q.MinP, g.MinP), TopK: first(q.TopK, g.TopK),
	}
	if p.TopK == -1 {
		p.TopK = 0 // some programs write -1 for all
	}
	if q.TopP != nil && *q.TopP == 0 {
		p.TopP = math.SmallestNonzeroFloat64 // only the likeliest token; 0 would keep all
	}
	if q.Seed != nil {
		p.Seed = *q.Seed
	} else {
		p.Seed = hash(q.ID)
	}
	return p
}

// first returns the first value that is given, or zero.
func first[T any](values ...*T) (zero T) {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return zero
}

// hash is the same on every worker and in every retry.
func hash(s string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, s)
	return h.Sum64()
}

// encode returns a line of JSON, whose types cannot fail, nor can their texts: the standard
// library's encoder replaces what is not UTF-8.
func encode(v any) string {
	var b bytes.Buffer
	e := stdjson.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// fault reports whether an error is caused by the line, so that a retry would fail
// in the same way.
func fault(err error) bool {
	return slices.ContainsFunc([]error{
		generate.ErrPrompt, chat.ErrTemplate, tokenizer.ErrEncoding, sample.ErrParams, kompute.ErrInvalid,
	}, func(kind error) bool { return errors.Is(err, kind) })
}
