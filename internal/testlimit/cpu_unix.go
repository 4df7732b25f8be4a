//go:build unix

package testlimit

import (
	"syscall"
	"time"
)

// cpuTime returns what the process has used of all processors.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
