//go:build unix

package checkpoint

import "golang.org/x/sys/unix"

// forgetPages tells the system that a file's mapped pages are not needed soon.
func forgetPages(mapped []byte) {
	_ = unix.Madvise(mapped, unix.MADV_DONTNEED) // advice only
}
