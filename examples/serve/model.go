package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// loaded is a model that is ready to answer.
type loaded struct {
	name      string
	created   time.Time
	folder    *generate.Folder
	opened    []*kompute.Device // by the options
	hosts     []*model.Host     // each on one of these devices, or on its replacement
	engine    *engine.Engine
	context   int   // maximum number of tokens of a request
	tools     bool  // whether the chat template shows tools to the model
	thinks    bool  // whether the model thinks unless the template prevents it
	maxPrompt int64 // maximum number of bytes of a prompt
	grammars  *grammars
	// submit is engine.SubmitChoices, and embed is engine.Embed; tests replace them.
	submit func(context.Context, engine.Request, int) ([]stream, error)
	embed  func(context.Context, engine.EmbedRequest) ([][]float32, error)
}

// stream has those methods of engine.Stream that are used.
type stream interface {
	Tokens() iter.Seq2[generate.Token, error]
	Times() (tokens int, first, last time.Time)
}

// bytesPerToken is far more than the average of any text.
const bytesPerToken = 16

// openModel opens the folder, the device and the engine that the options name.
func openModel(ctx context.Context, o *options, log *slog.Logger) (_ *loaded, err error) {
	m := &loaded{name: o.name, created: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if o.dir == "" {
		m.folder, err = generate.OpenFS(demomodel.FS(), demomodel.Name)
	} else {
		m.folder, err = generate.Open(o.dir)
	}
	if err != nil {
		return nil, err
	}
	for _, spec := range o.devices {
		if err := m.host(ctx, spec, o, log); err != nil {
			return nil, fmt.Errorf("--device %s: %w", spec, err)
		}
	}
	if m.engine, err = engine.NewHosted(m.hosts, m.folder.Tokenizer, o.engine); err != nil {
		return nil, err
	}
	if err := m.warmUp(ctx, o, log); err != nil {
		return nil, err
	}
	m.limitGarbage()
	m.context = m.folder.Limits().Context
	if o.engine.Context > 0 {
		m.context = o.engine.Context
	}
	if m.maxPrompt = o.maxPrompt; m.maxPrompt == 0 {
		m.maxPrompt = bytesPerToken * int64(m.context)
	}
	m.embed = m.engine.Embed
	m.submit = func(ctx context.Context, r engine.Request, choices int) (out []stream, err error) {
		all, err := m.engine.SubmitChoices(ctx, r, choices)
		for _, s := range all {
			out = append(out, s)
		}
		return out, err
	}
	m.grammars = newGrammars(m.folder.Tokenizer, m.folder.Limits().Vocabulary)
	if m.thinks, err = thinks(ctx, m.folder); err != nil {
		return nil, err
	}
	m.tools, err = showsTools(ctx, m.folder)
	return m, err
}

// limitGarbage lets garbage grow to the size of what is on Go's heap beside tensors, which the CPU backend keeps there.
// Go would let it grow to the size of both: a service with 8 GB of weights would come to take 16 GB. Collecting it more
// often costs little, since tensors have no pointers to follow. GOGC has its usual meaning if it is set.
func (m *loaded) limitGarbage() {
	tensors := int64(0)
	for _, d := range m.devices() {
		if d.Backend() == "cpu" {
			tensors += d.Stats().LiveBytes
		}
	}
	if tensors == 0 || os.Getenv("GOGC") != "" {
		return
	}
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	debug.SetGCPercent(garbagePercent(int64(heap.HeapAlloc), tensors))
}

// garbagePercent returns how large garbage may become, in percent of a heap with so many bytes of tensors, of which some
// may be elsewhere. 64 MB are always allowed.
func garbagePercent(heap, tensors int64) int {
	other := max(heap-tensors, 64<<20)
	return int(min(max(100*other/heap, 1), 100))
}

// warmUp compiles the kernels that requests need. If a device fails meanwhile, requests find out whether it recovers.
func (m *loaded) warmUp(ctx context.Context, o *options, log *slog.Logger) error {
	if o.noWarmUp {
		return nil
	}
	log.Info("compiling kernels")
	began := time.Now()
	err := m.engine.WarmUp(ctx)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		log.Warn("some kernels are compiled when requests need them", "reason", err)
	default:
		log.Info("kernels are compiled", "time", time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// host opens a device and loads the model on it.
func (m *loaded) host(ctx context.Context, spec string, o *options, log *slog.Logger) error {
	opening := []kompute.Option{kompute.WithLogger(log)}
	if o.overlap {
		opening = append(opening, kompute.WithOverlap())
	}
	if o.batchVariant {
		opening = append(opening, kompute.WithoutBatchInvariance())
	}
	d, err := kompute.Open(spec, opening...)
	if err != nil {
		return err
	}
	m.opened = append(m.opened, d)
	if why := d.NoGPUReason(); why != "" {
		log.Warn("running on the CPU", "reason", why)
	}
	load := o.loading
	load.Capacity = o.engine.CacheTokens
	h, err := model.NewHost(ctx, d, m.folder.Checkpoint, load, o.hosting)
	if err == nil {
		m.hosts = append(m.hosts, h)
	}
	return err
}

// devices returns those in use, one for each of the options.
func (m *loaded) devices() (out []*kompute.Device) {
	for _, h := range m.hosts {
		out = append(out, h.Model().Device())
	}
	return out
}

// names names the devices in use.
func (m *loaded) names() string {
	var out []string
	for _, d := range m.devices() {
		out = append(out, d.Info().Name)
	}
	return strings.Join(out, ", ")
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

// Close closes the engine, which is idle, and frees everything.
func (m *loaded) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTime)
	defer cancel()
	err := m.engine.Close(ctx)
	for i, h := range m.hosts {
		lost := h.Model().Device() != m.opened[i]
		err = errors.Join(err, h.Close())
		if closed := m.opened[i].Close(); !lost { // otherwise it would repeat that error
			err = errors.Join(err, closed)
		}
	}
	for _, d := range m.opened[len(m.hosts):] { // on which the model could not be loaded
		err = errors.Join(err, d.Close())
	}
	return errors.Join(err, m.folder.Close())
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
