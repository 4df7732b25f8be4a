//go:build !unix

package modelfile

// nonBlock is 0: opening always waits here.
const nonBlock = 0
