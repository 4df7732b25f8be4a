package kompute

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// A container's limit counts where it is below the machine's memory, and so do those of the groups
// around it.
func TestMemoryOfContainers(t *testing.T) {
	const kib = 1024
	machine := map[string]string{"/proc/meminfo": "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:    6000 kB\n"}
	for _, c := range []struct {
		name             string
		files            map[string]string
		total, available int64
	}{
		{"nothing is known", map[string]string{"/proc/meminfo": ""}, 0, 0},
		{"no groups", nil, 8000 * kib, 6000 * kib},
		{"version 1", map[string]string{"/proc/self/cgroup": "3:memory:/a\n"}, 8000 * kib, 6000 * kib},
		{"no limit", map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, 8000 * kib, 6000 * kib},
		{"a limit, and cached files", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "4096000\n", "/sys/fs/cgroup/memory.current": "3072000\n",
			"/sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 1024000\nactive_file 5\n",
		}, 4000 * kib, 2000 * kib},
		{"the limit is the machine's", map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "40960000\n", "/sys/fs/cgroup/memory.current": "0\n",
		}, 8000 * kib, 6000 * kib},
		{"the outer group's is less", map[string]string{
			"/proc/self/cgroup": "1:cpu:/\n0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "3072000\n", "/sys/fs/cgroup/a/b/memory.current": "1024000\n",
			"/sys/fs/cgroup/a/memory.max": "2048000\n", "/sys/fs/cgroup/a/memory.current": "3072000\n",
		}, 2000 * kib, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			total, available := memorySizeIn(func(name string) ([]byte, error) {
				if text, ok := c.files[name]; ok {
					return []byte(text), nil
				}
				if text, ok := machine[name]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			})
			require.Equal(t, c.total, total)
			require.Equal(t, c.available, available)
		})
	}
}
