//go:build !linux

package kompute

// adviseHugePages reports that there are no huge pages to ask for.
func adviseHugePages([]byte) bool { return false }
