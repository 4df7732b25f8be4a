package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// loaded is a model that is ready to answer.
type loaded struct {
	name      string
	created   time.Time
	folder    *generate.Folder
	engine    *engine.Engine
	context   int   // maximum number of tokens of a request
	queue     int   // maximum number of requests that wait
	maxPrompt int64 // maximum number of bytes of a prompt
	tools     bool  // whether the chat template shows tools to the model
	thinks    bool  // whether the model thinks unless the template prevents it
	grammars  *grammars
	slots     chan struct{} // one for each request that may be worked on
	// submit is engine.SubmitChoices, and embed is engine.Embed; tests replace them.
	submit func(context.Context, engine.Request, int) ([]stream, error)
	embed  func(context.Context, engine.EmbedRequest) ([][]float32, error)
}

// stream has those methods of engine.Stream that are used.
type stream interface {
	Tokens() iter.Seq2[generate.Token, error]
	Times() (tokens int, first, last time.Time)
	Cached() int
}

// bytesPerToken is far more than the average of any text.
const bytesPerToken = 16

// load finds out what requests can ask of a model.
func load(ctx context.Context, o *Options, f *generate.Folder, e *engine.Engine) (m *loaded, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if f == nil || e == nil {
		return nil, fmt.Errorf("%w: api: the folder and the engine must not be nil", kompute.ErrInvalid)
	}
	config := e.Config()
	m = &loaded{
		name: cmp.Or(o.Name, filepath.Base(filepath.Clean(f.Name()))), created: time.Now(), folder: f, engine: e, context: config.Context, queue: config.Queue,
		maxPrompt: cmp.Or(o.MaxPrompt, bytesPerToken*int64(config.Context)), grammars: newGrammars(f.Tokenizer, f.Limits().Vocabulary),
		slots: make(chan struct{}, e.Stats().Places+config.Queue), embed: e.Embed,
	}
	m.submit = func(ctx context.Context, r engine.Request, choices int) (out []stream, err error) {
		all, err := e.SubmitChoices(ctx, r, choices)
		for _, s := range all {
			out = append(out, s)
		}
		return out, err
	}
	if m.thinks, err = thinks(ctx, f); err != nil {
		return nil, err
	}
	m.tools, err = showsTools(ctx, f)
	return m, err
}

// showsTools finds out whether a tool changes the output of the chat template.
func showsTools(ctx context.Context, f *generate.Folder) (bool, error) {
	if f.Template == nil {
		return false, nil
	}
	tool := json.RawMessage(`{"type":"function","function":{"name":"now","description":"The time.","parameters":{"type":"object","properties":{}}}}`)
	plain, err := f.Template.Render(ctx, generate.Turn("", "Hi"), chat.Options{AddGenerationPrompt: true})
	if err != nil {
		return false, err
	}
	with, err := f.Template.Render(ctx, generate.Turn("", "Hi"), chat.Options{AddGenerationPrompt: true, Tools: []json.RawMessage{tool}})
	if errors.Is(err, chat.ErrTemplate) && ctx.Err() == nil {
		return false, nil // a template may reject tools
	}
	return plain != with, err
}

// sampling returns a request's parameters; the defaults are those of the model's
// generation_config.json and a random seed.
func (m *loaded) sampling(c *common) sample.Params {
	g := m.folder.Checkpoint.Generation
	if !g.DoSample {
		g = &checkpoint.Generation{Temperature: new(float64)}
	}
	p := sample.Params{
		Temperature: first(c.Temperature, g.Temperature, 1), Seed: rand.Uint64(),
		TopP: first(c.TopP, g.TopP, 0), MinP: first(c.MinP, g.MinP, 0), TopK: first(c.TopK, g.TopK, 0),
	}
	p.TopK = max(p.TopK, 0) // some clients send -1 for all
	if c.TopP != nil && *c.TopP == 0 {
		p.TopP = math.SmallestNonzeroFloat64 // only the likeliest token; 0 would keep all
	}
	if c.Seed != nil && *c.Seed != -1 { // for which vLLM and llama.cpp take a random one
		p.Seed = uint64(*c.Seed)
	}
	return p
}

// repetitionPenalty returns a request's penalty; the default is that of the model's generation_config.json.
func (m *loaded) repetitionPenalty(c *common) float64 {
	return cmp.Or(c.RepetitionPenalty, first(m.folder.Checkpoint.Generation.RepetitionPenalty, nil, 0))
}

// first returns the first value that is given.
func first[T any](given, recommended *T, otherwise T) T {
	switch {
	case given != nil:
		return *given
	case recommended != nil:
		return *recommended
	}
	return otherwise
}

// thinks finds out whether the chat template can end thoughts before they begin.
func thinks(ctx context.Context, f *generate.Folder) (bool, error) {
	if f.Template == nil {
		return false, nil
	}
	text, err := f.Template.Render(ctx, generate.Turn("", "Hi"), chat.Options{AddGenerationPrompt: true, Variables: map[string]any{"enable_thinking": false}})
	if errors.Is(err, chat.ErrTemplate) && ctx.Err() == nil {
		return false, nil
	}
	return strings.HasSuffix(strings.TrimSpace(text), thinkEnd), err
}

// thinkingFirst reports whether a prompt ends inside thoughts, which some
// templates begin.
func (m *loaded) thinkingFirst(prompt []int) bool { return m.endsWith(prompt, thinkTag) }

// thinkingOver reports whether a prompt ends after empty thoughts.
func (m *loaded) thinkingOver(prompt []int) bool { return m.endsWith(prompt, thinkEnd) }

func (m *loaded) endsWith(prompt []int, tag string) bool {
	end := m.folder.Tokenizer.Decode(prompt[max(0, len(prompt)-8):], tokenizer.KeepSpecial)
	return strings.HasSuffix(strings.TrimSpace(end), tag)
}
