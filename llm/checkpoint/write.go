package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Write writes a safetensors file. The widest elements come first, and the
// header is padded with spaces to a multiple of eight bytes, so that every
// tensor of the file is aligned. It uses a Tensor's Name, Stored (or DType if
// Stored is empty), Shape and Data. It fails with FormatError on a duplicate or
// reserved name, an unknown type or data of the wrong length.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	ordered := slices.Clone(tensors)
	slices.SortStableFunc(ordered, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(storedTypes[b.stored()].bits, storedTypes[a.stored()].bits), cmp.Compare(a.Name, b.Name))
	})
	header, err := buildHeader(ordered, metadata)
	if err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range ordered {
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes a safetensors file at a path; see Write. On failure the file
// is removed.
func WriteFile(path string, tensors []Tensor, metadata map[string]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(Write(w, tensors, metadata), w.Flush(), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (t Tensor) stored() string { return cmp.Or(t.Stored, storedName(t.DType)) }

// buildHeader returns the padded JSON header for tensors in this order.
func buildHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	sep := "{"
	member := func(name string, value any) error {
		key, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(value, json.Deterministic(true))
		fmt.Fprintf(&b, "%s%s:%s", sep, key, raw)
		sep = ","
		return err
	}
	if len(metadata) > 0 {
		if err := member("__metadata__", metadata); err != nil {
			return nil, &FormatError{Reason: "__metadata__: " + err.Error()}
		}
	}
	seen, at := map[string]bool{"__metadata__": true}, 0
	for _, t := range tensors {
		if err := checkWrite(t, seen); err != nil {
			return nil, err
		}
		entry := struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.stored(), append([]int{}, t.Shape...), [2]int{at, at + len(t.Data)}}
		if err := member(t.Name, entry); err != nil {
			return nil, err
		}
		seen[t.Name] = true
		at += len(t.Data)
	}
	if b.Len() == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > MaxHeader {
		return nil, &FormatError{Reason: fmt.Sprintf("header of %d bytes exceeds %d", b.Len(), MaxHeader)}
	}
	return b.Bytes(), nil
}

func checkWrite(t Tensor, seen map[string]bool) error {
	typ, ok := storedTypes[t.stored()]
	switch {
	case seen[t.Name]:
		return &FormatError{Tensor: t.Name, Reason: "duplicate or reserved name"}
	case !utf8.ValidString(t.Name):
		return &FormatError{Tensor: t.Name, Reason: "name is not valid UTF-8"}
	case !ok:
		return &FormatError{Tensor: t.Name, Reason: fmt.Sprintf("unknown dtype %q", t.stored())}
	case slices.ContainsFunc(t.Shape, func(d int) bool { return d < 0 }):
		return &FormatError{Tensor: t.Name, Reason: fmt.Sprintf("negative dimension in shape %v", t.Shape)}
	}
	size, err := byteSize(t.Shape, typ.bits)
	if err != nil {
		return &FormatError{Tensor: t.Name, Reason: err.Error()}
	}
	if size != len(t.Data) {
		return &FormatError{Tensor: t.Name, Reason: fmt.Sprintf("%s %v needs %d bytes, has %d", t.stored(), t.Shape, size, len(t.Data))}
	}
	return nil
}

// WriteIndex writes model.safetensors.index.json for tensors in the named shards
// (tensor → shard), size bytes in total.
func WriteIndex(w io.Writer, weights map[string]string, size int64) error {
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if !utf8.ValidString(name) {
			return &FormatError{Tensor: name, Reason: "the name is not UTF-8"}
		}
		if !plainName(weights[name]) {
			return &FormatError{Tensor: name, Reason: fmt.Sprintf("shard %q is not a plain file name", weights[name])}
		}
	}
	index := map[string]any{"metadata": map[string]int64{"total_size": size}, "weight_map": weights}
	return json.MarshalWrite(w, index, json.Deterministic(true), jsontext.WithIndent("  "))
}
