package kompute

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// hostMemorySize returns the bytes of memory that this process may use in all, and of those
// that are available: the machine's or, where it has less, its container's. They are 0 if unknown.
func hostMemorySize() (total, available int64) {
	return memorySizeIn(os.ReadFile)
}

// memorySizeIn is hostMemorySize of a system whose files read returns.
func memorySizeIn(read func(name string) ([]byte, error)) (total, available int64) {
	text, _ := read("/proc/meminfo")
	machine := numbersOf(string(text))
	total, available = machine["MemTotal"]<<10, machine["MemAvailable"]<<10
	for _, group := range controlGroups(read) {
		limit, ok := numberIn(read, path.Join(group, "memory.max"))
		if !ok {
			continue // "max": no limit
		}
		if total == 0 || limit < total {
			total = limit
		}
		used, _ := numberIn(read, path.Join(group, "memory.current"))
		text, _ := read(path.Join(group, "memory.stat"))
		used -= numbersOf(string(text))["inactive_file"]                    // the system takes those back when it needs memory
		if free := max(limit-used, 1); available == 0 || free < available { // at least 1, since 0 is unknown
			available = free
		}
	}
	return total, available
}

// controlGroups returns the folders of this process's control groups (version 2), from its own up to the root.
func controlGroups(read func(name string) ([]byte, error)) []string {
	const root = "/sys/fs/cgroup"
	text, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			var out []string
			for group = path.Clean("/" + group); group != "/"; group = path.Dir(group) {
				out = append(out, root+group)
			}
			return append(out, root)
		}
	}
	return nil
}

// numbersOf returns the numbers of a text whose lines have a name, a number and perhaps a unit.
func numbersOf(text string) map[string]int64 {
	out := make(map[string]int64)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				out[strings.TrimSuffix(fields[0], ":")] = n
			}
		}
	}
	return out
}

// numberIn returns the number that a file holds, and whether it holds one.
func numberIn(read func(name string) ([]byte, error), name string) (int64, bool) {
	text, err := read(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
