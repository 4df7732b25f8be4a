package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// settings are how workers answer. They travel to them with the pipeline.
type settings struct {
	Model, Device                 string
	Sequences, Context, MaxTokens int
	NoThink                       bool
	Timeout                       time.Duration
}

// worker is a model and its engine. A process has one for its settings, which all of
// its bundles share: they fill its steps together.
type worker struct {
	settings settings
	users    int
	folder   *generate.Folder
	device   *kompute.Device
	model    model.Model
	engine   *engine.Engine
}

// workers are those of this process.
var workers = struct {
	sync.Mutex
	of map[settings]*worker
}{of: map[settings]*worker{}}

// acquire returns the worker for the settings, which it opens if nobody uses it yet.
func acquire(ctx context.Context, s settings) (*worker, error) {
	workers.Lock()
	defer workers.Unlock()
	w := workers.of[s]
	if w == nil {
		w = &worker{settings: s}
		if err := w.open(ctx); err != nil {
			return nil, errors.Join(err, w.close())
		}
		workers.of[s] = w
	}
	w.users++
	return w, nil
}

// release closes the worker after its last user.
func (w *worker) release() error {
	workers.Lock()
	defer workers.Unlock()
	if w.users--; w.users > 0 {
		return nil
	}
	delete(workers.of, w.settings)
	return w.close()
}

func (w *worker) open(ctx context.Context) (err error) {
	if w.settings.Model == "" {
		w.folder, err = generate.OpenFS(demomodel.FS(), demomodel.Name)
	} else {
		w.folder, err = generate.Open(w.settings.Model)
	}
	if err != nil {
		return err
	}
	if w.device, err = kompute.Open(w.settings.Device); err != nil {
		return fmt.Errorf("device %s: %w", w.settings.Device, err)
	}
	if w.model, err = w.folder.Load(ctx, w.device, model.Options{}); err != nil {
		return err
	}
	w.engine, err = engine.New(w.model, w.folder.Tokenizer, engine.Config{Sequences: w.settings.Sequences, Context: w.settings.Context})
	return err
}

// close ends the engine and frees everything.
func (w *worker) close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // whoever used the engine has what it wanted
	err := w.engine.Close(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if w.model != nil {
		err = errors.Join(err, w.model.Close())
	}
	if w.device != nil {
		err = errors.Join(err, w.device.Close())
	}
	return errors.Join(err, w.folder.Close())
}

// request returns what the engine is asked for a line.
func (w *worker) request(ctx context.Context, q *question) (engine.Request, error) {
	r := engine.Request{
		MaxTokens: q.MaxTokens, Sampling: q.sampling(w.folder.Checkpoint.Generation), EOS: w.folder.EOS(), Stop: q.Stop,
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = w.settings.MaxTokens
	}
	var err error
	if q.Prompt != "" {
		r.Prompt, err = w.folder.EncodeText(ctx, q.Prompt)
		return r, err
	}
	o := chat.Options{}
	if w.settings.NoThink {
		o.Variables = map[string]any{"enable_thinking": false}
	}
	r.Prompt, err = w.folder.EncodeChatWith(ctx, q.conversation(), o)
	return r, err
}
