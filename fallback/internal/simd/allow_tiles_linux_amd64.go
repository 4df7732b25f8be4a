package simd

import "syscall"

// allowTiles asks Linux for permission to use tiles, whose large state it would
// otherwise not save.
func allowTiles() bool {
	const archReqXCompPerm, tileData = 0x1023, 18
	_, _, errno := syscall.RawSyscall(158, archReqXCompPerm, tileData, 0) // arch_prctl
	return errno == 0
}
