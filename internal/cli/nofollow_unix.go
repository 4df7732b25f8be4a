//go:build unix

package cli

import "syscall"

// noFollow has opening fail at a symbolic link.
const noFollow = syscall.O_NOFOLLOW
