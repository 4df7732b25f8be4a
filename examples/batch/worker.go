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
// its bundles share: they fill its steps together. It stays open between them, because
// loading a model takes long.
type worker struct {
	settings settings
	users    int // bundles in progress
	folder   *generate.Folder
	device   *kompute.Device // the one opened first
	host     *model.Host     // on this device, or on its replacement
	engine   *engine.Engine
}

// workers are those of this process. The lock also guards their fields.
var workers = struct {
	sync.Mutex
	of map[settings]*worker
}{of: map[settings]*worker{}}

// acquire returns the worker for the settings to a bundle. It opens another one if
// there is none, or if that one can no longer answer.
func acquire(ctx context.Context, s settings) (*worker, error) {
	workers.Lock()
	defer workers.Unlock()
	w := workers.of[s]
	if w != nil && w.engine.Err() != nil {
		w.retire()
		w = nil
	}
	if w == nil {
		w = &worker{settings: s}
		if err := w.open(ctx); err != nil {
			return nil, errors.Join(err, w.free(), w.folder.Close())
		}
		workers.of[s] = w
	}
	w.users++
	return w, nil
}

// retire frees what the next worker needs, such as the device's memory, after the engine
// has ended for good. Bundles that still use the worker fail when they ask the engine;
// the last one closes the folder.
func (w *worker) retire() {
	delete(workers.of, w.settings)
	_ = w.free() // of a device that is lost
	if w.users == 0 {
		_ = w.folder.Close()
	}
}

// release ends a bundle's use of the worker.
func (w *worker) release() {
	workers.Lock()
	defer workers.Unlock()
	if w.users--; w.users == 0 && workers.of[w.settings] != w {
		_ = w.folder.Close()
	}
}

// closeIdle closes the worker for the settings, if there is one that no bundle uses.
func closeIdle(s settings) error {
	workers.Lock()
	defer workers.Unlock()
	w := workers.of[s]
	if w == nil || w.users > 0 {
		return nil
	}
	delete(workers.of, s)
	return errors.Join(w.free(), w.folder.Close())
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
	w.host, err = model.NewHost(ctx, w.device, w.folder.Checkpoint, model.Options{}, model.HostOptions{})
	if err != nil {
		return err
	}
	config := engine.Config{Sequences: w.settings.Sequences, Context: w.settings.Context}
	w.engine, err = engine.NewHosted([]*model.Host{w.host}, w.folder.Tokenizer, config)
	return err
}

// free ends the engine, and frees everything but the folder.
func (w *worker) free() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // whoever used the engine has what it wanted
	err := w.engine.Close(ctx)
	if errors.Is(err, context.Canceled) || w.engine.Err() != nil { // its bundles have had that error
		err = nil
	}
	lost := w.host != nil && w.host.Model().Device() != w.device
	err = errors.Join(err, w.host.Close())
	if w.device != nil {
		if closed := w.device.Close(); !lost { // otherwise it would repeat that error
			err = errors.Join(err, closed)
		}
	}
	w.host, w.device = nil, nil
	return err
}

// request returns what the engine is asked for a line.
func (w *worker) request(ctx context.Context, q *question) (engine.Request, error) {
	r := engine.Request{
		MaxTokens: q.MaxTokens, Sampling: q.sampling(w.folder.Checkpoint.Generation), EOS: w.folder.EOS(), Stop: q.Stop,
		RepetitionPenalty: first(w.folder.Checkpoint.Generation.RepetitionPenalty),
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
