//go:build !unix

package cli

// noFollow is 0: opening cannot refuse a symbolic link here.
const noFollow = 0
