package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

	// replacing is full while the device is replaced, and guards the fields below. Since that
	// may take minutes, callers wait for it no longer than their contexts, and model and
	// replaced are also guarded by mu, so that they can be read meanwhile.
	replacing chan struct{}
	mu        sync.Mutex
	device    *kompute.Device
	own       bool // the host has opened it
	onCPU     bool // it is the CPU in place of a lost device
	model     Model
	replaced  int
	// lost is why model was closed without another in its place yet: those who use it now
	// see only that the device is closed. Guarded by replacing alone.
	lost error
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

// pauses follow a try to replace a device that failed, the last one also each further try:
// a driver that starts again, or another program that frees memory, takes seconds.
var pauses = []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

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
	return &Host{checkpoint: c, options: o, limits: h, replacing: make(chan struct{}, 1), device: d, model: m}, nil
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

// Replaced returns how often the host has tried to replace the device, without tries that
// ended only because their context did.
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
// and loading, joined with cause. Between tries it waits, for up to a few seconds. If
// another caller has already replaced the device, or closed it and then failed, cause may
// also be kompute.ErrClosed. The device of lost is closed, so its other streams fail with
// kompute.ErrClosed or kompute.ErrDeviceLost.
func (h *Host) Replace(ctx context.Context, lost Model, cause error) (Model, error) {
	isLost := errors.Is(cause, kompute.ErrDeviceLost)
	if !isLost && !errors.Is(cause, kompute.ErrClosed) || h.Model() == nil {
		return nil, cause
	}
	if err := h.lock(ctx); err != nil {
		return nil, errors.Join(cause, err)
	}
	defer h.unlock()
	if h.model != lost {
		return h.model, nil
	}
	if !isLost && h.lost != nil { // an earlier caller closed it, and could not replace it
		isLost, cause = true, errors.Join(h.lost, cause)
	}
	if !isLost || h.onCPU {
		return nil, cause
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(cause, err)
	}
	if h.lost == nil && (h.replaced < h.limits.Most || h.limits.OnCPU) {
		h.lost = cause
		_ = h.model.Close() // of a device that is lost
	}
	err := h.reopen(ctx, cause)
	if err != nil && h.limits.OnCPU && ctx.Err() == nil {
		err = h.useCPU(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return h.model, nil
}

// lock waits until no other caller replaces the device, or ctx ends.
func (h *Host) lock(ctx context.Context) error {
	select {
	case h.replacing <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.replacing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) unlock() { <-h.replacing }

// reopen opens the device again and loads the model on it, until that succeeds or the host
// has tried often enough: the device may be lost again at once, or memory may run out. It
// fails with cause, joined with the errors of all tries and of the context.
func (h *Host) reopen(ctx context.Context, cause error) error {
	log, name := h.device.Logger(), slog.String("device", h.device.Info().Name)
	all, last := cause, cause
	for tries := 0; h.replaced < h.limits.Most && ctx.Err() == nil; tries++ {
		if tries > 0 && !pause(ctx, pauses[min(tries, len(pauses))-1]) {
			break
		}
		log.Warn("a lost device is replaced", name, slog.Int("times", h.replaced+1), slog.String("error", last.Error()))
		last = h.load(ctx, func() (*kompute.Device, error) { return h.device.Reopen(ctx) })
		if last == nil || ctx.Err() == nil || !errors.Is(last, ctx.Err()) {
			h.count() // otherwise it says nothing about the device, and others may still need the try
		}
		if last == nil {
			return nil
		}
		all = errors.Join(all, last)
	}
	if err := ctx.Err(); err != nil && !errors.Is(all, err) {
		return errors.Join(all, err)
	}
	return all
}

// useCPU loads the model on the CPU backend instead of a device that could not be replaced
// because of err.
func (h *Host) useCPU(ctx context.Context, err error) error {
	log := h.device.Logger()
	log.Warn("the CPU replaces a lost device", slog.String("device", h.device.Info().Name), slog.String("error", err.Error()))
	if failed := h.load(ctx, func() (*kompute.Device, error) { return kompute.Open("cpu", kompute.WithLogger(log)) }); failed != nil {
		return errors.Join(err, failed)
	}
	h.onCPU = true
	return nil
}

// pause reports whether it has waited that long: not if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
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
	h.device, h.model, h.own, h.lost = d, m, true, nil
	return nil
}

// Close frees the weights, and the device if it is one that the host has opened.
// Closing a nil host does nothing.
func (h *Host) Close() error {
	if h.Model() == nil {
		return nil
	}
	_ = h.lock(context.Background())
	defer h.unlock()
	h.lost = nil // from now on it is closed because its owner wants that
	err := h.model.Close()
	if h.own {
		err = errors.Join(err, h.device.Close())
	}
	return err
}
