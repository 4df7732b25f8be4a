//go:build !unix

package simd

// atTheEnd returns numbers: there is no memory that cannot be read.
func atTheEnd(_ int, numbers []uint16) []uint16 { return numbers }
