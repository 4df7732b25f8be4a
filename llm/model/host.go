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
// lost: it opens the device again and loads the weights again. What ran on the old
// device is gone; those who ran it compute it again. Its methods may be called from
// any goroutine.
type Host struct {
	checkpoint *checkpoint.Checkpoint
	options    Options
	limits     HostOptions

	mu       sync.Mutex
	device   *kompute.Device
	model    Model
	replaced int
}

// HostOptions say how a Host replaces a lost device.
type HostOptions struct {
	Most int // how often at most; 0 is DefaultReplacements, below 0 never
	// OnCPU goes on with the CPU backend where the device cannot be opened again.
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

// Model returns the model as it is now. Its device is the one that it is on.
func (h *Host) Model() Model {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.model
}

// Replaced returns how often the device was replaced.
func (h *Host) Replaced() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replaced
}

// Replace returns a model to go on with after lost failed with cause: a new one, on
// the device opened again, or the one that another caller has had replaced already. It
// returns cause if that is not that the device is lost, or if it was replaced often
// enough; else the context's error, and those of opening and loading, with cause. The
// device of lost is closed, whose other streams then fail with kompute.ErrClosed or
// kompute.ErrDeviceLost.
func (h *Host) Replace(ctx context.Context, lost Model, cause error) (Model, error) {
	if !errors.Is(cause, kompute.ErrDeviceLost) {
		return nil, cause
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.model != lost {
		return h.model, nil
	}
	if h.replaced >= h.limits.Most {
		return nil, cause
	}
	h.replaced++
	log := h.device.Logger()
	log.Warn("a lost device is replaced", slog.String("device", h.device.Info().Name), slog.Int("times", h.replaced), slog.String("error", cause.Error()))
	_ = h.model.Close() // of a device that is lost
	d, err := h.device.Reopen(ctx)
	if err != nil && h.limits.OnCPU && ctx.Err() == nil {
		log.Warn("the CPU takes the place of a device that is lost", slog.String("device", h.device.Info().Name), slog.String("error", err.Error()))
		d, err = kompute.Open("cpu", kompute.WithLogger(log))
	}
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	m, err := Load(ctx, d, h.checkpoint, h.options)
	if err != nil {
		return nil, errors.Join(cause, fmt.Errorf("after the device was opened again: %w", err), d.Close())
	}
	h.device, h.model = d, m
	return m, nil
}

// Close frees the weights, and the device if it is one that the host has opened.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.model.Close()
	if h.replaced > 0 {
		err = errors.Join(err, h.device.Close())
	}
	return err
}
