package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// ErrFit is wrapped by every [FitError].
var ErrFit = errors.New("does not fit the device")

// FitError reports that a model is too large for a device. It is found before
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

// formatBytes writes a size with its exact number, which distinguishes sizes that
// round to the same number of MiB.
func formatBytes(n int64) string {
	const mib = 1 << 20
	return fmt.Sprintf("%d bytes (%.1f MiB)", n, float64(n)/mib)
}

// room returns how many bytes weights and a cache of tokens leave of the device's memory,
// or math.MaxInt64 if the driver does not report it.
func room(d *kompute.Device, weights int64, shape nn.CacheShape, tokens int, dtype kompute.DType) int64 {
	available := d.Info().MemoryAvailable
	if available <= 0 {
		return math.MaxInt64
	}
	cache, _ := shape.Bytes(tokens, dtype)
	return available - weights - cache
}

// checkFit compares what weights of the given bytes need, with a cache of the
// given number of tokens of elements of a type, to what the device has.
func checkFit(d *kompute.Device, name string, weights int64, shape nn.CacheShape, tokens int, dtype kompute.DType) error {
	info := d.Info()
	cache, tensor := shape.Bytes(tokens, dtype)
	if limit := info.MaxTensorBytes; limit > 0 && tensor > limit {
		return &FitError{What: fmt.Sprintf("a key-value cache of %d tokens", tokens), Device: info.Name, Needed: tensor, Available: limit, Limit: "for one tensor"}
	}
	if available := info.MemoryAvailable; available > 0 && weights+cache > available {
		return &FitError{
			What: fmt.Sprintf("%s with a cache of %d tokens", name, tokens), Device: info.Name,
			Needed: weights + cache, Available: available, Limit: "in all",
		}
	}
	return nil
}
