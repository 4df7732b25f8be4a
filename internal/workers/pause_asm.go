//go:build amd64 || arm64

package workers

// pause tells the processor that this is a loop that waits: it draws less power,
// and another thread of the core gets on.
//
//go:noescape
func pause()
