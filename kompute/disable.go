package kompute

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// disableVariable lists names as WithDisabled does, separated by commas.
const disableVariable = "KOMPUTE_GO_DISABLE"

// disabledReason is the fallback reason of a disabled op.
const disabledReason = "disabled"

// WithDisabled leaves out native ops and kernels, as the environment variable KOMPUTE_GO_DISABLE
// does for every device. It helps to find the cause of a problem, and tests use it to force a kernel:
// the remaining ones do the work. A name means the first of these that exists:
//
//	"sdpa"                           the op of that basename runs on the CPU, with the same results,
//	                                 and counts as a fallback with the reason "disabled"; fusion
//	                                 passes do not see it
//	"quantized_matmul_coopmat"       a kernel; the next best one for the op does its work
//	"sdpa.narrow_subgroup"           one variant of a kernel; its next variant does the work
//	"coopmat", "lanes", "tiled", …   all kernels whose names end in it
//	"subgroup", "dot8", "nv", …      all variants with that word in their names
//
// Device.Kernels lists kernels and variants. An op that no kernel is left for runs on the CPU. An
// unknown name makes Open fail with ErrInvalid. On the CPU device the option changes nothing.
func WithDisabled(names ...string) Option {
	return func(o *options) { o.disable(names) }
}

func (o *options) disable(names []string) {
	for _, name := range trimmed(names) {
		if o.disabled == nil {
			o.disabled = make(map[string]bool)
		}
		o.disabled[name] = true
	}
}

func (o *options) disableFromEnvironment() { o.disable(listVariable(disableVariable)) }

// resolveDisabled keeps only the names of ops in o.disabled, and returns the variants that the other
// names mean.
func (o *options) resolveDisabled(variants []KernelVariant) ([]string, error) {
	ops := make(map[string]bool)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o.disabled)) {
		if isOp(name) {
			ops[name] = true
			continue
		}
		before := len(out)
		for _, v := range variants {
			if v.named(name) {
				out = append(out, v.String())
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("disabled %q: %w: there is no such op, kernel or variant; there are %s", name, ErrInvalid, namesToDisable(variants))
		}
	}
	o.disabled = ops
	return out, nil
}

func isOp(name string) bool {
	return slices.ContainsFunc(opdef.Ops, func(op *opdef.Op) bool { return op.Name == name })
}

// transferKernel moves bytes between host and device. It cannot be disabled.
const transferKernel = "transfer"

// named reports whether a name given to WithDisabled means v.
func (v *KernelVariant) named(name string) bool {
	if v.Kernel == transferKernel {
		return false
	}
	return name == v.Kernel || name == v.String() || strings.HasSuffix(v.Kernel, "_"+name) ||
		slices.Contains(strings.Split(v.Variant, "_"), name)
}

// namesToDisable lists the names that WithDisabled accepts.
func namesToDisable(variants []KernelVariant) string {
	ops, kernels, words := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, op := range opdef.Ops {
		ops[op.Name] = true
	}
	for _, v := range variants {
		if v.Kernel == transferKernel {
			continue
		}
		kernels[v.Kernel] = true
		for _, word := range strings.Split(v.Variant, "_") {
			words[word] = true
		}
	}
	list := func(names map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(names)), " ") }
	return fmt.Sprintf("ops: %s; kernels: %s; words of variants: %s", list(ops), list(kernels), list(words))
}
