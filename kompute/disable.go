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

// disabledReason is why an op that was switched off runs on the CPU.
const disabledReason = "disabled"

// WithDisabledOps switches native ops off, by basename ("sdpa", "rms_norm"), as the
// environment variable KOMPUTE_GO_DISABLE does for every device. On a Vulkan device
// they run on the CPU instead, with the same answers, counted as fallbacks for the
// reason "disabled"; no fusion pass sees them, so that none can hide one. It is for
// finding out which op is to blame. A name that is no op's makes Open fail with
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

// checkDisabled refuses names that would switch nothing off.
func (o *options) checkDisabled(findOp func(string) int32) error {
	for _, name := range slices.Sorted(maps.Keys(o.disabled)) {
		// There is nothing to run in place of what only passes make: KOMPUTE_GO_DISABLE_FUSION leaves those out.
		if slices.Contains(opdef.FusedOps, name) {
			return fmt.Errorf("disabled op %q: %w: only fusion makes it; see KOMPUTE_GO_DISABLE_FUSION", name, ErrInvalid)
		}
		if findOp(name) < 0 {
			return fmt.Errorf("disabled op %q: %w: there is no native op of that name", name, ErrInvalid)
		}
	}
	return nil
}
