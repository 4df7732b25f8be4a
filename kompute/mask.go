package kompute

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/fallback/fusion"
)

// Environment variables with names separated by commas, which are read when a device
// is opened.
const (
	noFusionVariable = "KOMPUTE_GO_DISABLE_FUSION"
	maskVariable     = "KOMPUTE_GO_MASK_FEATURES"
)

// WithMaskedFeatures makes a Vulkan device look like a lesser one, as the environment
// variable KOMPUTE_GO_MASK_FEATURES does for every device: these features are not
// enabled, and kernels and limits are chosen as if the device did not have them. It is
// for tests, which can thus run on any driver what other devices would run. Names are those
// of csrc/runtime/mask.def, such as storage16, subgroup, dot8, coopmat, timestamps,
// shared_memory, queues; another name makes Open fail with ErrInvalid, and a list of
// them. On the CPU device the option changes nothing.
func WithMaskedFeatures(names ...string) Option {
	return func(o *options) { o.masked = append(o.masked, trimmed(names)...) }
}

// WithFeatures enables features that the caller's own shaders need and no kernel of this
// library does, on a Vulkan device: atomic_float32 and atomic_float64 (additions to
// floats in buffers), atomic_int64, variable_pointers, subgroup_clustered and
// subgroup_quad. Features that are enabled wherever a device has them can be asked for
// too, such as int64, float64, int16, float16, storage16, subgroup and subgroup_size
// (WithSubgroupSize). If the device lacks one, Open fails with ErrUnsupported and its name; another name is
// ErrInvalid. On the CPU device, which runs no shaders, the option changes nothing.
func WithFeatures(names ...string) Option {
	return func(o *options) { o.features = append(o.features, trimmed(names)...) }
}

// WithoutFusion leaves out fusion passes, as the environment variable
// KOMPUTE_GO_DISABLE_FUSION does for every device: by the names in
// csrc/fusion/passes.def, "memory_plan" for the sharing of a region's memory, or "all".
// It helps to find what causes a problem, and to compare. Another name makes Open fail
// with ErrInvalid.
func WithoutFusion(passes ...string) Option {
	return func(o *options) { o.noPasses = append(o.noPasses, trimmed(passes)...) }
}

// memoryPlan is what WithoutFusion calls the sharing of a region's memory.
const memoryPlan = "memory_plan"

// withoutPass reports whether a pass, or memoryPlan, is left out.
func (o *options) withoutPass(name string) bool {
	return slices.Contains(o.noPasses, name) || slices.Contains(o.noPasses, "all")
}

// checkPasses checks the names given to WithoutFusion.
func (o *options) checkPasses() error {
	known := append(append(fusion.Passes(), fusion.NativePasses...), memoryPlan, "all")
	for _, name := range o.noPasses {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no fusion pass %q to leave out: %w: there are %s", name, ErrInvalid, strings.Join(known, ", "))
		}
	}
	return nil
}

// listVariable returns the names in an environment variable.
func listVariable(name string) []string { return trimmed(strings.Split(os.Getenv(name), ",")) }

// trimmed returns the names that are not empty.
func trimmed(names []string) []string {
	var out []string
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
