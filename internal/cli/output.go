package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckOutput finds out before long work whether the file that a flag names can
// be written. What the file holds stays as it is, and none is left where there
// was none. An empty path is none, and fine.
func CheckOutput(flagName, path string) error {
	if path == "" {
		return nil
	}
	if err := tryWriting(path); err != nil {
		return fmt.Errorf("--%s: %w", flagName, err)
	}
	return nil
}

func tryWriting(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
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
