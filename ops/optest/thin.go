package optest

import (
	"hash/fnv"
	"testing"
)

// With -short, one of shortThin cases is run; under the race detector, which slows the
// CPU backend down most, one of raceThin. The other cases run in builds without it.
const (
	shortThin = 4
	raceThin  = 4
)

// slowChecks divides the number of random cases on slow devices.
const slowChecks = 10

// slow reports whether Vulkan runs on the CPU, as with lavapipe. There nearly all of the
// time goes into compiling kernels, anew for each element type and layout.
func (r *runner) slow() bool {
	return !r.every && r.dev.Backend() == "vulkan" && r.dev.Info().Type == "cpu"
}

// skip reports whether to leave out a case: in short tests, under the race
// detector, and on slow devices.
func (r *runner) skip(name string) bool {
	of := 1
	if r.slow() {
		of = max(1, r.thin)
	}
	if testing.Short() {
		of *= shortThin
	}
	if raceDetector && r.dev.Backend() == "cpu" {
		of *= raceThin
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	if h.Sum32()%uint32(of) != 0 {
		return true
	}
	return r.parts > 0 && h.Sum32()/uint32(of)%uint32(r.parts) != uint32(r.part)
}
