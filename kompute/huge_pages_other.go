//go:build !linux

package kompute

// hasHugePages reports that there are no huge pages to ask for.
func hasHugePages() bool { return false }

func adviseHugePages([]byte) bool { return false }
