package kompute

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// disableVariable lists ops as WithDisabledOps does, separated by commas.
const disableVariable = "KOMPUTE_GO_DISABLE"

// disabledReason is the fallback reason of a disabled op.
const disabledReason = "disabled"

// WithDisabledOps disables native ops by basename ("sdpa", "rms_norm"), as the environment variable
// KOMPUTE_GO_DISABLE does for every device. On a Vulkan device they run on the CPU instead, with
// the same results, and count as fallbacks with the reason "disabled"; fusion passes do not see
// them. It helps to find the op that causes a problem. An unknown name makes Open fail with
// ErrInvalid. On the CPU device it changes nothing.
func WithDisabledOps(names ...string) Option {
	return func(o *options) { o.disable(names) }
}

func (o *options) disable(names []string) {
	for _, name := range names {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if o.disabled == nil {
			o.disabled = make(map[string]bool)
		}
		o.disabled[name] = true
	}
}

func (o *options) disableFromEnvironment() {
	o.disable(strings.Split(os.Getenv(disableVariable), ","))
}

// checkDisabled rejects names that would disable nothing.
func (o *options) checkDisabled(findOp func(string) int32) error {
	for _, name := range slices.Sorted(maps.Keys(o.disabled)) {
		// Ops that only fusion makes have no CPU form: KOMPUTE_GO_DISABLE_FUSION leaves them out.
		if slices.Contains(opdef.FusedOps, name) {
			return fmt.Errorf("disabled op %q: %w: only fusion makes it; see KOMPUTE_GO_DISABLE_FUSION", name, ErrInvalid)
		}
		if findOp(name) < 0 {
			return fmt.Errorf("disabled op %q: %w: there is no native op of that name", name, ErrInvalid)
		}
	}
	return nil
}
