package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckOutput checks, before long work, whether CreateOutput can write the file that
// a flag names. It neither changes an existing file nor leaves a new one. An empty
// path means no file, and is accepted.
func CheckOutput(flagName, path string) error {
	if path == "" {
		return nil
	}
	if err := tryWriting(path); err != nil {
		return fmt.Errorf("--%s: %w", flagName, err)
	}
	return nil
}

// CreateOutput opens the file that a flag names for writing, as os.Create does, with
// these differences: only the user may read it, since it may contain prompts; it is not
// opened through a symbolic link, which somebody else may have put there; and a pipe that
// nobody reads is an error, not a wait.
// Links in /dev and /dev/fd, such as /dev/stdout, are allowed: they belong to the system.
func CreateOutput(path string) (*os.File, error) {
	if err := refuseLink(path); err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !inDev(path) {
		flags |= noFollow
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// refuseLink returns a clear error for what opening would refuse.
func refuseLink(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && !inDev(path) {
		return fmt.Errorf("%s is a symbolic link", path)
	}
	return nil
}

// inDev reports whether a file is directly in /dev or /dev/fd, unlike those of /dev/shm, where
// everybody may write.
func inDev(path string) bool {
	abs, err := filepath.Abs(path)
	dir := filepath.Dir(abs)
	return err == nil && (dir == "/dev" || dir == "/dev/fd")
}

func tryWriting(path string) error {
	if err := refuseLink(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(path))
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return nil // a pipe or a device, which opening may disturb
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
