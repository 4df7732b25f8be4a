package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// loaded is a model that is ready to answer.
type loaded struct {
	folder *generate.Folder
	opened []*kompute.Device // by the options
	hosts  []*model.Host     // each on one of these devices, or on its replacement
	engine *engine.Engine
}

// openModel opens the folder, the devices and the engine that the options name.
func openModel(ctx context.Context, o *options, log *slog.Logger) (_ *loaded, err error) {
	m := &loaded{}
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
	return m, nil
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
