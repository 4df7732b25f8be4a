package checkpoint

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/edsrzf/mmap-go"
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

// openSource maps a file of the operating system and reads any other. A mapped
// file must not shrink while it is open.
func openSource(fsys fs.FS, root, name string) (*source, error) {
	f, info, err := openRegular(fsys, root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok && info.Size() > 0 {
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

// openRegular opens name, and refuses what is not a plain file: opening a pipe
// would wait forever.
func openRegular(fsys fs.FS, root, name string) (fs.File, fs.FileInfo, error) {
	full := path.Join(root, name)
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, nil, &MissingError{File: full, Err: cause(err)}
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &FormatError{File: full, Reason: fmt.Sprintf("not a plain file (%v)", info.Mode())}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, &MissingError{File: full, Err: cause(err)}
	}
	return f, info, nil
}

// cause strips the path, which the typed errors name themselves.
func cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// readSmall reads a file of at most limit bytes.
func readSmall(fsys fs.FS, root, name string, limit int64) ([]byte, error) {
	f, info, err := openRegular(fsys, root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	full := path.Join(root, name)
	if info.Size() > limit {
		return nil, &FormatError{File: full, Reason: fmt.Sprintf("%d bytes, more than the %d allowed", info.Size(), limit)}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, err)
	}
	return data, nil
}

// OpenFile maps one safetensors file. Close it when its tensors are done with.
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
	f, err := Parse(path.Join(root, name), src.data)
	if err != nil {
		src.Close()
		return nil, err
	}
	f.source = src
	return f, nil
}
