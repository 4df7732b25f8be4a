package chat

import (
	"errors"
	"fmt"
)

// The sentinels that the errors of this package wrap.
var (
	// ErrNoTemplate says that a model has no chat template.
	ErrNoTemplate = errors.New("no chat template")
	// ErrFormat says that tokenizer_config.json is malformed.
	ErrFormat = errors.New("malformed tokenizer configuration")
	// ErrTemplate says that a template is malformed or failed.
	ErrTemplate = errors.New("chat template")
	// ErrLimit says that a template took more time, steps, memory, depth or output
	// than it may.
	ErrLimit = errors.New("limit exceeded")
	// ErrInternal says that a template failed by a bug of this package.
	ErrInternal = errors.New("internal error")
)

// TemplateError reports a template that could not be parsed or rendered. It wraps
// ErrTemplate, and also ErrLimit, ErrInternal, context.Canceled or
// context.DeadlineExceeded if that is the reason.
type TemplateError struct {
	Stage  string // "parse" or "render"
	Reason string // for raise_exception, the template's own message
	Stack  []byte // with ErrInternal: where it happened
	cause  error
}

// Error names the stage and the reason.
func (e *TemplateError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrTemplate, e.Stage, e.Reason)
}

// Unwrap returns ErrTemplate, and the cause if there is one.
func (e *TemplateError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrTemplate}
	}
	return []error{ErrTemplate, e.cause}
}

// FormatError reports a malformed tokenizer_config.json. It wraps ErrFormat.
type FormatError struct {
	Field  string // the JSON field, or empty for the whole file
	Reason string
}

// Error names the field and the reason.
func (e *FormatError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: %s", ErrFormat, e.Reason)
	}
	return fmt.Sprintf("%v: %s: %s", ErrFormat, e.Field, e.Reason)
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }

// FileError reports a file of a model that cannot be read. It wraps the cause.
type FileError struct {
	File string
	Err  error
}

// Error names the file and the cause.
func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// NoTemplateError reports a model without the requested template. It wraps
// ErrNoTemplate.
type NoTemplateError struct {
	Name  string   // the requested name, or empty
	Known []string // the available names
}

// Error names the template and the available ones.
func (e *NoTemplateError) Error() string {
	s := ErrNoTemplate.Error()
	if e.Name != "" {
		s += fmt.Sprintf(" named %q", e.Name)
	}
	if len(e.Known) > 0 {
		s += fmt.Sprintf(" (there are: %q)", e.Known)
	}
	return s
}

// Unwrap returns ErrNoTemplate.
func (e *NoTemplateError) Unwrap() error { return ErrNoTemplate }
