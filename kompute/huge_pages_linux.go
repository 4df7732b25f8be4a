package kompute

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// hasHugePages reports whether the system gives huge pages to those that ask for them.
var hasHugePages = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !bytes.Contains(text, []byte("[never]"))
})

// adviseHugePages asks for huge pages in memory that begins at one, and reports whether the system agrees. What has
// been touched before, as memory that Go uses again, stays in small ones for a while.
func adviseHugePages(memory []byte) bool {
	return unix.Madvise(memory, unix.MADV_HUGEPAGE) == nil
}
