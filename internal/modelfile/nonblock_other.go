//go:build !unix

package modelfile

// nonBlock is nothing where opening cannot be told not to wait.
const nonBlock = 0
