package simd

// Prefetch loads data into the cache that will be used soon.
func Prefetch(data []byte) {
	if len(data) > 0 {
		prefetchLines(&data[0], (len(data)+63)/64)
	}
}

// PrefetchToWrite takes data from the caches of other processors, so that stores do not wait for
// them. Processors without the instruction for it do nothing.
func PrefetchToWrite(data []byte) {
	if len(data) > 0 {
		prefetchLinesToWrite(&data[0], (len(data)+63)/64)
	}
}

// prefetchLinesToWrite asks for count lines of 64 bytes, which no other cache keeps.
//
//go:noescape
func prefetchLinesToWrite(from *byte, count int)
