package simd

// Prefetch asks for data to come to the second cache.
func Prefetch(data []byte) {
	if len(data) > 0 {
		prefetchLines(&data[0], (len(data)+63)/64)
	}
}

// PrefetchNear asks for data to come to the nearest cache.
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

// prefetchLinesToWrite asks for count lines of 64 bytes, which no other cache keeps.
//
//go:noescape
func prefetchLinesToWrite(from *byte, count int)
