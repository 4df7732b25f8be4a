package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The sentinels that the typed errors of this package wrap.
var (
	// ErrFormat says that a file breaks the rules of its format.
	ErrFormat = errors.New("malformed file")
	// ErrConfig says that a configuration file holds a wrong value.
	ErrConfig = errors.New("invalid configuration")
	// ErrUnsupported says that a file is valid, but needs something that this
	// module does not support.
	ErrUnsupported = errors.New("unsupported")
	// ErrMissing says that a file or a tensor is missing, or that a file cannot be opened.
	ErrMissing = errors.New("missing")
	// ErrMismatch says that a tensor contradicts the configuration.
	ErrMismatch = errors.New("tensor contradicts the configuration")
)

// FormatError reports a malformed weight or index file. It wraps ErrFormat.
type FormatError struct {
	File   string // path of the file
	Tensor string // the tensor concerned, or empty
	Reason string
}

// Error names the file, the tensor and the reason.
func (e *FormatError) Error() string {
	return where(e.File, e.Tensor) + ErrFormat.Error() + ": " + e.Reason
}

// where returns the start of a message: the file and the tensor, if known.
func where(file, tensor string) string {
	s := ""
	if file != "" {
		s = file + ": "
	}
	if tensor != "" {
		s += fmt.Sprintf("tensor %q: ", tensor)
	}
	return s
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }

// ConfigError reports a wrong value in a configuration file. It wraps ErrConfig.
type ConfigError struct {
	File   string // path of the file
	Field  string // name of the JSON field, or empty for the whole file
	Reason string
}

// Error names the file, the field and the reason.
func (e *ConfigError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %v: %s", e.File, ErrConfig, e.Reason)
	}
	return fmt.Sprintf("%s: %v: %s: %s", e.File, ErrConfig, e.Field, e.Reason)
}

// Unwrap returns ErrConfig.
func (e *ConfigError) Unwrap() error { return ErrConfig }

// UnsupportedError reports a valid file that needs something this module does
// not support. It wraps ErrUnsupported.
type UnsupportedError struct {
	File      string   // path of the file
	What      string   // what kind of thing, e.g. "architecture"
	Got       string   // what the file names
	Supported []string // the supported values, or empty
}

// Error names the file, the setting and the supported values.
func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("%s: %v %s %q", e.File, ErrUnsupported, e.What, e.Got)
	if len(e.Supported) > 0 {
		s += " (supported: " + strings.Join(e.Supported, ", ") + ")"
	}
	return s
}

// Unwrap returns ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

// MissingError reports a file or a tensor that is not there, or a file that cannot be
// opened. It wraps ErrMissing and the cause.
type MissingError struct {
	File   string // path of the file, or of the folder without the tensor
	Tensor string // the tensor, or empty when the file itself is missing
	Reason string
	Err    error // the cause, such as fs.ErrNotExist, or nil
}

// Error names the file, the tensor and the reason.
func (e *MissingError) Error() string {
	what := ErrMissing.Error()
	if e.Err != nil && !errors.Is(e.Err, fs.ErrNotExist) {
		what = "cannot be opened"
	}
	s := where(e.File, e.Tensor) + what
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrMissing and the cause.
func (e *MissingError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrMissing}
	}
	return []error{ErrMissing, e.Err}
}

// MismatchError reports a tensor whose shape, dtype or layer contradicts the
// configuration. It wraps ErrMismatch.
type MismatchError struct {
	File   string // the weight file
	Tensor string
	Got    string // dtype and shape as stored, or the layer
	Want   string // what the configuration asks for
}

// Error names the file, the tensor, what it is and what it should be.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: tensor %q is %s, the configuration asks for %s", e.File, e.Tensor, e.Got, e.Want)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }
