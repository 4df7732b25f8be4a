//go:build !linux

package simd

// allowTiles is false where nothing is known of the system's way to allow tiles.
func allowTiles() bool { return false }
