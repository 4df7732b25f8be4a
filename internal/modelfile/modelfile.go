// Package modelfile reads the files of model folders, which may come from anywhere:
// only plain files, only as many bytes as a caller allows, and nothing outside the
// folder.
package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotPlain says that a file is a folder, a pipe, a device or the like.
var ErrNotPlain = errors.New("not a plain file")

// SizeError reports a file that is larger than it may be.
type SizeError struct{ Bytes, Most int64 }

// Error names the sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%d bytes, more than the %d allowed", e.Bytes, e.Most)
}

// Folder is a folder of the operating system. Symbolic links in it must not lead out
// of it, with one exception: a snapshot in Hugging Face's cache consists of links to
// the blobs beside the snapshots.
type Folder struct {
	root *os.Root
	dir  string // of the folder, in root
}

// OpenFolder opens a folder. Close it when its files are no longer needed.
func OpenFolder(dir string) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil { // else opening it tells what is wrong
		abs = real
	}
	root, inside := abs, "."
	if snapshots := filepath.Dir(abs); filepath.Base(snapshots) == "snapshots" {
		model := filepath.Dir(snapshots)
		if info, err := os.Lstat(filepath.Join(model, "blobs")); err == nil && info.IsDir() {
			root, inside = model, filepath.Join("snapshots", filepath.Base(abs))
		}
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return &Folder{r, inside}, nil
}

// Open opens a file, without waiting if it is a pipe. It implements fs.FS.
func (f *Folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f.root.OpenFile(filepath.Join(f.dir, filepath.FromSlash(name)), os.O_RDONLY|nonBlock, 0)
}

// Stat implements fs.StatFS.
func (f *Folder) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return f.root.Stat(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// Close closes the folder. Open files stay open.
func (f *Folder) Close() error { return f.root.Close() }

// Open opens a plain file and returns its size. It fails with ErrNotPlain for
// anything else; it checks before opening, and again afterwards in case the file was
// replaced.
func Open(fsys fs.FS, name string) (fs.File, int64, error) {
	if fsys == nil {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%w (%v)", ErrNotPlain, info.Mode())
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w (%v)", ErrNotPlain, info.Mode())
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Cause strips the name of the file from an error of this package, for errors that name
// it themselves.
func Cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// Read reads a plain file of at most that many bytes. It fails with SizeError for a
// larger one, which is not read, and with the errors of Open.
func Read(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, size, err := Open(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, &SizeError{size, most}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most { // it has grown, or reports no size
		err = &SizeError{int64(len(data)), most}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
