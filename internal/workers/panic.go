package workers

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic of a loop or of a part of a schedule, which may have
// happened in any worker.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // from debug.Stack
}

// Error returns the value as text.
func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// panicError converts the result of recover to an error. Nested loops pass a
// PanicError on.
func panicError(value any) *PanicError {
	if e, ok := value.(*PanicError); ok {
		return e
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}
