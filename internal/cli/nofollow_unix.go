//go:build unix

package cli

import "syscall"

// noFollow makes opening a symbolic link fail, and a pipe that nobody reads, on which
// opening would wait.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
