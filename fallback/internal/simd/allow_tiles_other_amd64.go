//go:build !linux

package simd

// allowTiles returns false: how this system allows tiles is not known.
func allowTiles() bool { return false }
