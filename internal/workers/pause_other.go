//go:build !amd64 && !arm64

package workers

// pause is nothing where there is no instruction for it.
func pause() {}
