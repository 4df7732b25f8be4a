package tokenizer

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinels that the typed errors of this package wrap.
var (
	// ErrFormat says that tokenizer.json or tokenizer_config.json is malformed.
	ErrFormat = errors.New("malformed tokenizer")
	// ErrUnsupported says that tokenizer.json asks for an unknown component.
	ErrUnsupported = errors.New("unsupported tokenizer")
	// ErrEncoding says that a text cannot be turned into tokens.
	ErrEncoding = errors.New("text cannot be encoded")
)

// FormatError reports a malformed tokenizer.json. It wraps ErrFormat.
type FormatError struct {
	Field  string // where in the file, e.g. "model.merges", or empty
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

// ConfigError reports a wrong value in tokenizer_config.json. It wraps ErrFormat.
type ConfigError struct {
	Field  string // where in the file, e.g. "eos_token", or empty
	Reason string
}

// Error names the field and the reason.
func (e *ConfigError) Error() string { return (&FormatError{e.Field, e.Reason}).Error() }

// Unwrap returns ErrFormat.
func (e *ConfigError) Unwrap() error { return ErrFormat }

// UnsupportedError reports a component that this package does not know. It
// wraps ErrUnsupported.
type UnsupportedError struct {
	Component string   // e.g. "normalizer"
	Got       string   // what the file names
	Supported []string // what would work, or empty
}

// Error names the component and what would work.
func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("%v: %s %s", ErrUnsupported, e.Component, e.Got)
	if len(e.Supported) > 0 {
		s += " (supported: " + strings.Join(e.Supported, ", ") + ")"
	}
	return s
}

// Unwrap returns ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

// EncodingError reports a text that cannot be encoded. It wraps ErrEncoding.
type EncodingError struct {
	Offset int // byte offset in the text, -1 where it is not known
	Reason string
}

// Error names the offset and the reason.
func (e *EncodingError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%v: %s", ErrEncoding, e.Reason)
	}
	return fmt.Sprintf("%v: %s at byte %d", ErrEncoding, e.Reason, e.Offset)
}

// Unwrap returns ErrEncoding.
func (e *EncodingError) Unwrap() error { return ErrEncoding }
