//go:build amd64 || arm64

package workers

// pause tells the processor that this is a waiting loop, so that it uses less
// power and leaves more of the core to its other thread.
//
//go:noescape
func pause()
