//go:build !unix

package checkpoint

// forgetPages does nothing: this system takes no advice.
func forgetPages([]byte) {}
