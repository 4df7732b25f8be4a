package model

import (
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
)

// ErrFit is what a [FitError] wraps.
var ErrFit = errors.New("does not fit the device")

// FitError says that a model is too large for a device. It is found before
// anything is loaded.
type FitError struct {
	What              string // what is too large
	Device            string
	Needed, Available int64  // bytes
	Limit             string // which limit Available is
}

// Error names both sizes.
func (e *FitError) Error() string {
	return fmt.Sprintf("%s %v %s: it needs %s, and %s is available %s",
		e.What, ErrFit, e.Device, formatBytes(e.Needed), formatBytes(e.Available), e.Limit)
}

// Unwrap returns ErrFit.
func (e *FitError) Unwrap() error { return ErrFit }

// formatBytes writes a size with the exact number, which tells sizes apart that
// round to the same.
func formatBytes(n int64) string {
	const mib = 1 << 20
	return fmt.Sprintf("%d bytes (%.1f MiB)", n, float64(n)/mib)
}

// checkFit compares what the plan needs, with a cache of the given number of
// tokens, to what the device has.
func (l *loader[T]) checkFit(tokens int) error {
	info := l.device.Info()
	cache, tensor := l.cacheBytes(roundCapacity(tokens, l.weights.Config.MaxPositions))
	if limit := info.MaxTensorBytes; limit > 0 && tensor > limit {
		return &FitError{What: fmt.Sprintf("a key-value cache of %d tokens", tokens), Device: info.Name, Needed: tensor, Available: limit, Limit: "for one tensor"}
	}
	if available := info.MemoryAvailable; available > 0 && l.bytes+cache > available {
		return &FitError{
			What: fmt.Sprintf("%s with a cache of %d tokens", l.weights.Name(), tokens), Device: info.Name,
			Needed: l.bytes + cache, Available: available, Limit: "in all",
		}
	}
	return nil
}

// cacheBytes is the memory of a key-value cache of n tokens, and of each of its
// tensors.
func (l *loader[T]) cacheBytes(n int) (all, tensor int64) {
	c := l.weights.Config
	tensor = int64(c.KVHeads) * int64(c.HeadDim) * int64(n) * int64(array.DTypeOf[T]().Size())
	return 2 * int64(c.Layers) * tensor, tensor
}
