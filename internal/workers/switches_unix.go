//go:build unix

package workers

import "syscall"

// involuntarySwitches returns how often the system has taken a thread of this process
// off its processor because another one was due.
func involuntarySwitches() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return int64(usage.Nivcsw)
}
