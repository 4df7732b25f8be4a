//go:build unix

package modelfile

import "syscall"

// nonBlock has opening a pipe return at once.
const nonBlock = syscall.O_NONBLOCK
