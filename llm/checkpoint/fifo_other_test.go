//go:build !unix

package checkpoint_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
