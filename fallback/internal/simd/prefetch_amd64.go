package simd

// Prefetch prefetches data into the second cache.
func Prefetch(data []byte) {
	if len(data) > 0 {
		prefetchLines(&data[0], (len(data)+63)/64)
	}
}

// PrefetchNear prefetches data into the nearest cache.
func PrefetchNear(data []byte) {
	if len(data) > 0 {
		prefetchNearLines(&data[0], (len(data)+63)/64)
	}
}

// PrefetchToWrite takes data from the caches of other processors, so that stores do not wait for
// them. On processors that lack the instruction it does nothing.
func PrefetchToWrite(data []byte) {
	if len(data) > 0 {
		prefetchLinesToWrite(&data[0], (len(data)+63)/64)
	}
}

// prefetchLinesToWrite prefetches count lines of 64 bytes, which no other cache keeps then.
//
//go:noescape
func prefetchLinesToWrite(from *byte, count int)
