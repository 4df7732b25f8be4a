package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// Host keeps a checkpoint's model on a device, and replaces both if the device is
// lost: it opens the device again and loads the weights again. Work on the old
// device is lost; its callers must repeat it. Its methods may be called from any
// goroutine.
type Host struct {
	checkpoint *checkpoint.Checkpoint
	options    Options
	limits     HostOptions

	// replacing is held while the device is replaced, and guards the fields below. Since that
	// may take minutes, model and replaced are also guarded by mu, so that they can be read
	// meanwhile.
	replacing sync.Mutex
	mu        sync.Mutex
	device    *kompute.Device
	own       bool // the host has opened it
	onCPU     bool // it is the CPU in place of a lost device
	model     Model
	replaced  int
}

// HostOptions determine how a Host replaces a lost device.
type HostOptions struct {
	Most int // how often at most; 0 is DefaultReplacements, below 0 never
	// OnCPU goes on with the CPU backend where the device cannot be opened again, or was
	// replaced often enough.
	OnCPU bool
}

// DefaultReplacements is how often a Host replaces a device.
const DefaultReplacements = 3

// NewHost loads the model on d, as [Load] does. d and c must stay open as long as the
// host is; a device that the host has opened instead of d is the host's own.
func NewHost(ctx context.Context, d *kompute.Device, c *checkpoint.Checkpoint, o Options, h HostOptions) (*Host, error) {
	m, err := Load(ctx, d, c, o)
	if err != nil {
		return nil, err
	}
	if h.Most == 0 {
		h.Most = DefaultReplacements
	}
	return &Host{checkpoint: c, options: o, limits: h, device: d, model: m}, nil
}

// Model returns the current model, on the current device: the one that was lost, until it
// has been replaced.
func (h *Host) Model() Model {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.model
}

// Replaced returns how often the host has tried to replace the device.
func (h *Host) Replaced() int {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replaced
}

// Replace returns a model to continue with after lost failed with cause: a new one, on
// the reopened device or on the CPU, or the replacement that another caller has already
// obtained. It returns cause if the device is not lost, or if it has been replaced too
// often or by the CPU; otherwise it fails with the context's error and those of opening
// and loading, joined with cause. If another caller has already replaced the device, cause
// may also be kompute.ErrClosed. The device of lost is closed, so its other streams fail
// with kompute.ErrClosed or kompute.ErrDeviceLost.
func (h *Host) Replace(ctx context.Context, lost Model, cause error) (Model, error) {
	isLost := errors.Is(cause, kompute.ErrDeviceLost)
	if !isLost && !errors.Is(cause, kompute.ErrClosed) {
		return nil, cause
	}
	h.replacing.Lock()
	defer h.replacing.Unlock()
	if h.model != lost {
		return h.model, nil
	}
	if !isLost || h.onCPU {
		return nil, cause
	}
	if h.replaced < h.limits.Most || h.limits.OnCPU {
		_ = h.model.Close() // of a device that is lost
	}
	log, name := h.device.Logger(), slog.String("device", h.device.Info().Name)
	last := cause
	for h.replaced < h.limits.Most && ctx.Err() == nil { // it may be lost again at once, or memory may run out
		h.count()
		log.Warn("a lost device is replaced", name, slog.Int("times", h.replaced), slog.String("error", last.Error()))
		if last = h.load(ctx, func() (*kompute.Device, error) { return h.device.Reopen(ctx) }); last == nil {
			return h.model, nil
		}
	}
	err := cause
	if last != cause {
		err = errors.Join(cause, last)
	}
	if !h.limits.OnCPU || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	log.Warn("the CPU replaces a lost device", name, slog.String("error", err.Error()))
	if failed := h.load(ctx, func() (*kompute.Device, error) { return kompute.Open("cpu", kompute.WithLogger(log)) }); failed != nil {
		return nil, errors.Join(err, failed)
	}
	h.onCPU = true
	return h.model, nil
}

// count counts another try to replace the device.
func (h *Host) count() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replaced++
}

// load switches to another device and loads the model on it.
func (h *Host) load(ctx context.Context, open func() (*kompute.Device, error)) error {
	d, err := open()
	if err != nil {
		return err
	}
	m, err := Load(ctx, d, h.checkpoint, h.options)
	if err != nil {
		return errors.Join(fmt.Errorf("after another device was opened: %w", err), d.Close())
	}
	if h.own {
		_ = h.device.Close() // it is lost, and was shut down
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.device, h.model, h.own = d, m, true
	return nil
}

// Close frees the weights, and the device if it is one that the host has opened.
// Closing a nil host does nothing.
func (h *Host) Close() error {
	if h == nil {
		return nil
	}
	h.replacing.Lock()
	defer h.replacing.Unlock()
	if h.model == nil {
		return nil
	}
	err := h.model.Close()
	if h.own {
		err = errors.Join(err, h.device.Close())
	}
	return err
}
