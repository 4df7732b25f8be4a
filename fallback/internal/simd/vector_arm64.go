package simd

import "golang.org/x/sys/cpu"

// vectorLevels returns the levels of this processor above Generic.
func vectorLevels() []Level {
	if !cpu.ARM64.HasASIMDDP {
		return nil
	}
	return []Level{NEON}
}
