//go:build !unix

package cli

// noFollow is nothing where opening cannot refuse a symbolic link.
const noFollow = 0
