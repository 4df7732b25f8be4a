package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxHeader is the largest header the format allows, in bytes.
const MaxHeader = 100_000_000

// File is one safetensors file.
//
// The format: eight bytes little-endian length N; N bytes of JSON that start
// with '{' and may end in spaces; then the data. The JSON maps each name to
// {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from the
// start of the data, and "__metadata__" to an object of strings or null. The tensors
// cover the data exactly, without holes or overlaps. Alignment is not promised.
type File struct {
	name     string
	tensors  map[string]Tensor
	metadata map[string]string
	source   *source
}

// Parse reads a safetensors file in memory; name is for messages.
// The tensors share data, which must stay unchanged. It fails with FormatError.
func Parse(name string, data []byte) (*File, error) {
	header, body, err := splitHeader(name, data)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, tensors: map[string]Tensor{}, metadata: map[string]string{}}
	entries, err := object(header)
	if err != nil {
		return nil, &FormatError{File: name, Reason: "header: " + err.Error()}
	}
	if raw, ok := entries["__metadata__"]; ok {
		delete(entries, "__metadata__")
		if err := f.readMetadata(raw); err != nil {
			return nil, err
		}
	}
	spans := make([]span, 0, len(entries))
	for tensor, raw := range entries {
		t, s, err := parseEntry(raw, body)
		if err != nil {
			return nil, &FormatError{File: name, Tensor: tensor, Reason: err.Error()}
		}
		t.Name, t.File, s.name = tensor, name, tensor
		f.tensors[tensor] = t
		spans = append(spans, s)
	}
	if err := checkCover(name, spans, len(body)); err != nil {
		return nil, err
	}
	return f, nil
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	if f == nil {
		return Tensor{}, false
	}
	t, ok := f.tensors[name]
	return t, ok
}

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string {
	if f == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(f.tensors))
}

// Metadata returns the file's "__metadata__", empty where it has none.
func (f *File) Metadata() map[string]string {
	if f == nil {
		return nil
	}
	return maps.Clone(f.metadata)
}

// Close frees the file's memory. Tensors of f must not be used after it.
// Closing a nil file, or one twice, does nothing.
func (f *File) Close() error {
	if f == nil || f.source == nil {
		return nil
	}
	return f.source.Close()
}

// splitHeader checks the length and returns the header and the data after it.
func splitHeader(name string, data []byte) (header, body []byte, err error) {
	if len(data) < 8 {
		return nil, nil, &FormatError{File: name, Reason: fmt.Sprintf("%d bytes are too few for a header length", len(data))}
	}
	n, rest := binary.LittleEndian.Uint64(data), data[8:]
	switch {
	case bytes.HasPrefix(data, []byte("version https://git-lfs")):
		return nil, nil, &FormatError{File: name, Reason: "this is a pointer of Git LFS, not the file itself: run git lfs pull in its folder"}
	case n > MaxHeader:
		return nil, nil, &FormatError{File: name, Reason: fmt.Sprintf("header length %d exceeds %d", n, MaxHeader)}
	case n > uint64(len(rest)):
		return nil, nil, &FormatError{File: name, Reason: fmt.Sprintf("header length %d exceeds the %d bytes that follow", n, len(rest))}
	case n == 0 || rest[0] != '{':
		return nil, nil, &FormatError{File: name, Reason: "header does not start with '{'"}
	}
	return rest[:n:n], rest[n:], nil
}

func (f *File) readMetadata(raw jsontext.Value) error {
	if raw.Kind() == 'n' { // MLX writes null for a file without metadata
		return nil
	}
	values, err := object(raw)
	if err != nil {
		return &FormatError{File: f.name, Reason: "__metadata__: " + err.Error()}
	}
	for key, raw := range values {
		s, ok := text(raw)
		if !ok {
			return &FormatError{File: f.name, Reason: fmt.Sprintf("__metadata__: %q is not a string", key)}
		}
		f.metadata[key] = s
	}
	return nil
}

// span is a tensor's byte range in the data.
type span struct {
	name       string
	begin, end int
}

// parseEntry checks one header entry against the data and slices it out.
func parseEntry(raw jsontext.Value, body []byte) (Tensor, span, error) {
	fields, err := object(raw)
	if err != nil {
		return Tensor{}, span{}, err
	}
	for _, want := range []string{"dtype", "shape", "data_offsets"} {
		if _, ok := fields[want]; !ok {
			return Tensor{}, span{}, fmt.Errorf("no %q", want)
		}
	}
	if len(fields) != 3 {
		return Tensor{}, span{}, errors.New("fields other than dtype, shape and data_offsets")
	}
	var t Tensor
	var ok bool
	if t.Stored, ok = text(fields["dtype"]); !ok {
		return Tensor{}, span{}, errors.New("dtype is not a string")
	}
	typ, ok := storedTypes[t.Stored]
	if !ok {
		return Tensor{}, span{}, fmt.Errorf("unknown dtype %q", t.Stored)
	}
	t.DType = typ.dtype
	if t.Shape, err = naturals(fields["shape"]); err != nil {
		return Tensor{}, span{}, fmt.Errorf("shape: %w", err)
	}
	offsets, err := naturals(fields["data_offsets"])
	if err != nil {
		return Tensor{}, span{}, fmt.Errorf("data_offsets: %w", err)
	}
	if len(offsets) != 2 {
		return Tensor{}, span{}, fmt.Errorf("%d data_offsets, not 2", len(offsets))
	}
	s := span{begin: offsets[0], end: offsets[1]}
	if s.begin > s.end || s.end > len(body) {
		return Tensor{}, span{}, fmt.Errorf("data_offsets [%d, %d] outside the %d bytes of data", s.begin, s.end, len(body))
	}
	size, err := byteSize(t.Shape, typ.bits)
	if err != nil {
		return Tensor{}, span{}, err
	}
	if size != s.end-s.begin {
		return Tensor{}, span{}, fmt.Errorf("%v needs %d bytes, data_offsets span %d", t, size, s.end-s.begin)
	}
	t.Data = body[s.begin:s.end:s.end]
	return t, s, nil
}

// checkCover makes sure that the tensors cover all size bytes exactly once.
func checkCover(file string, spans []span, size int) error {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	at := 0
	for _, s := range spans {
		if s.begin < at {
			return &FormatError{File: file, Tensor: s.name, Reason: fmt.Sprintf("data from byte %d overlaps another tensor, which ends at %d", s.begin, at)}
		}
		if s.begin > at {
			return &FormatError{File: file, Tensor: s.name, Reason: fmt.Sprintf("hole of %d bytes before byte %d", s.begin-at, s.begin)}
		}
		at = s.end
	}
	if at != size {
		return &FormatError{File: file, Reason: fmt.Sprintf("%d bytes of data belong to no tensor", size-at)}
	}
	return nil
}
