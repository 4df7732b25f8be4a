//go:build unix

package modelfile

import "syscall"

// nonBlock makes opening a pipe return at once.
const nonBlock = syscall.O_NONBLOCK
