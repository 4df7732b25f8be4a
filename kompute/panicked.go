package kompute

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/kompute-go/kompute-go/internal/fault"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// runOnHost runs the op's CPU form. dev.mu is not held.
func (s *Stream) runOnHost(op Op, arrays []Array) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer s.recovered(&op, &err)
	if err := op.CPU(arrays, op.Params); err != nil {
		return s.located(op, "", err)
	}
	return nil
}

// recovered makes an error of a panic on the host, so that it ends the stream's
// work and not the process. It is to be deferred.
func (s *Stream) recovered(op *Op, err *error) {
	value := recover()
	if value == nil {
		return
	}
	stack := debug.Stack()
	if e, ok := value.(error); ok {
		var elsewhere *workers.PanicError
		if errors.As(e, &elsewhere) {
			value, stack = elsewhere.Value, elsewhere.Stack
		}
	}
	if fault.Is(value) {
		*err = opError(op, "", ErrFault)
		return
	}
	s.dev.Logger().Error("an op panicked on the CPU", slog.String("op", op.Name), slog.Any("panic", value), slog.String("stack", string(stack)))
	*err = opError(op, fmt.Sprintf("panic on the CPU: %v", value), ErrInternal)
}

// touching calls f, which touches memory that may be a mapped file's.
func touching(f func()) error {
	return fault.Guard(func() error {
		f()
		return nil
	})
}
