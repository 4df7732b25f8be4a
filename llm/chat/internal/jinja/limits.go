package jinja

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Limits bound one rendering. Zero is no limit.
type Limits struct {
	// Steps is how many nodes of the template may be evaluated; work inside a
	// filter or an operator also counts: bytesPerStep bytes or one element is a
	// step.
	Steps int64
	// Bytes is how much memory may be allocated for values in total, including
	// garbage.
	Bytes int64
	// Output is the longest text, in bytes.
	Output int64
	// Depth is how deeply macros, recursive loops and values may be nested.
	Depth int
}

// ErrLimit is wrapped by the error of a rendering that exceeds a limit.
var ErrLimit = errors.New("limit exceeded")

// ErrPanic is wrapped by PanicError.
var ErrPanic = errors.New("internal error")

// PanicError is the error of a rendering that would have ended the program.
type PanicError struct {
	Value any
	Stack []byte // where it happened
}

// Error has no stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, e.Value) }

// Unwrap returns ErrPanic.
func (e *PanicError) Unwrap() error { return ErrPanic }

// The costs of operations.
const (
	bytesPerStep  = 64 // of text that is examined
	bytesPerItem  = 32 // of a list
	bytesPerEntry = 128
	stepsPerCheck = 4096 // between checks of the context
)

// meter counts the resources that a rendering has used.
type meter struct {
	ctx    context.Context
	limits Limits
	steps  int64
	bytes  int64
	depth  int
	check  int64 // steps at the next check of the context
}

// step counts n nodes or elements.
func (m *meter) step(n int) error {
	m.steps += int64(n)
	if m.limits.Steps > 0 && m.steps > m.limits.Steps {
		return fmt.Errorf("%w: more than %d steps", ErrLimit, m.limits.Steps)
	}
	if m.steps < m.check {
		return nil
	}
	m.check = m.steps + stepsPerCheck
	if err := m.ctx.Err(); err != nil {
		return context.Cause(m.ctx)
	}
	return nil
}

// scan counts n bytes of text that are examined.
func (m *meter) scan(n int) error { return m.step(1 + n/bytesPerStep) }

// take counts n bytes. It is called before they are allocated.
func (m *meter) take(n int) error { return m.takeMany(1, int64(n)) }

// takeMany counts size bytes, count times. If it succeeds, count and the product
// are not negative and fit an int.
func (m *meter) takeMany(size, count int64) error {
	size, count = max(size, 1), max(count, 0)
	if most := m.limits.Bytes; most > 0 && count > (most-m.bytes)/size {
		return fmt.Errorf("%w: values of more than %d bytes", ErrLimit, most)
	}
	if count > math.MaxInt/size {
		return fmt.Errorf("%w: %d times %d bytes are more than there can be", ErrLimit, count, size)
	}
	m.bytes += size * count
	return m.scan(int(size * count))
}

// enter goes one level deeper; leave goes back.
func (m *meter) enter() error {
	if m.depth++; m.limits.Depth > 0 && m.depth > m.limits.Depth {
		return fmt.Errorf("%w: nested deeper than %d", ErrLimit, m.limits.Depth)
	}
	return nil
}

func (m *meter) leave() { m.depth-- }
