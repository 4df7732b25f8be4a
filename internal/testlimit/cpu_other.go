//go:build !unix

package testlimit

import "time"

var started = time.Now()

func cpuTime() time.Duration { return time.Since(started) }
