//go:build !linux

package kompute

// hasHugePages reports that there are no huge pages to ask for.
func hasHugePages() bool { return false }

// adviseHugePages reports that the system has none.
func adviseHugePages([]byte) bool { return false }
