package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/edsrzf/mmap-go"

	"github.com/kompute-go/kompute-go/internal/fault"
	"github.com/kompute-go/kompute-go/internal/modelfile"
)

// source is the memory of one file: mapped, or read.
type source struct {
	data   []byte
	mapped mmap.MMap // nil when data was read
	once   sync.Once
	err    error
}

// Close unmaps. It may be called more than once.
func (s *source) Close() error {
	s.once.Do(func() {
		s.data = nil
		if s.mapped != nil {
			s.err = s.mapped.Unmap()
		}
	})
	return s.err
}

// unload gives the memory of a mapped file back to the system, until it is read again.
func (s *source) unload() {
	if s != nil && s.mapped != nil {
		forgetPages(s.mapped)
	}
}

// openSource maps a file of the operating system and reads any other. If a mapped
// file shrinks while it is open, touching what is gone is a fault, which package
// fault makes an error of.
func openSource(fsys fs.FS, root, name string) (*source, error) {
	f, size, err := openPlain(fsys, root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok && size > 0 {
		mapped, err := mmap.Map(file, mmap.RDONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: map into memory: %w", path.Join(root, name), err)
		}
		return &source{data: mapped, mapped: mapped}, nil
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(root, name), err)
	}
	return &source{data: data}, nil
}

// openPlain opens a plain file, with the typed errors of this package.
func openPlain(fsys fs.FS, root, name string) (fs.File, int64, error) {
	f, size, err := modelfile.Open(fsys, name)
	if err != nil {
		return nil, 0, fileError(path.Join(root, name), err)
	}
	return f, size, nil
}

// fileError converts an error of reading a file to a typed one.
func fileError(file string, err error) error {
	var size *modelfile.SizeError
	switch {
	case errors.Is(err, modelfile.ErrNotPlain) || errors.As(err, &size):
		return &FormatError{File: file, Reason: err.Error()}
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.As(err, new(*fs.PathError)):
		return &MissingError{File: file, Err: modelfile.Cause(err)}
	}
	return fmt.Errorf("%s: %w", file, err)
}

// readSmall reads a file of at most limit bytes.
func readSmall(fsys fs.FS, root, name string, limit int64) ([]byte, error) {
	data, err := modelfile.Read(fsys, name, limit)
	if err != nil {
		return nil, fileError(path.Join(root, name), err)
	}
	return data, nil
}

// OpenFile maps one safetensors file. Close it when its tensors are no longer needed.
func OpenFile(name string) (*File, error) {
	dir, base := path.Split(filepath.ToSlash(name))
	if dir == "" {
		dir = "."
	}
	return openFile(os.DirFS(dir), dir, base)
}

func openFile(fsys fs.FS, root, name string) (*File, error) {
	src, err := openSource(fsys, root, name)
	if err != nil {
		return nil, err
	}
	var f *File
	err = fault.Guard(func() error {
		f, err = Parse(path.Join(root, name), src.data)
		return err
	})
	if err != nil {
		src.Close()
		return nil, err
	}
	f.source = src
	return f, nil
}
