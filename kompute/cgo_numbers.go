//go:build cgo && !nogpu

package kompute

/*
#include <kpx.h>
*/
import "C"

import "github.com/kompute-go/kompute-go/internal/array"

// Numbers of the C ABI that Go also names in builds without it. None of these compiles
// unless both languages agree.
var (
	_ [1]struct{} = [1 + codeUnsupported - C.KPX_UNSUPPORTED]struct{}{}
	_ [1]struct{} = [1 + codeInvalid - C.KPX_INVALID]struct{}{}
	_ [1]struct{} = [1 + codeOutOfMemory - C.KPX_OUT_OF_MEMORY]struct{}{}
	_ [1]struct{} = [1 + codeDeviceLost - C.KPX_DEVICE_LOST]struct{}{}
	_ [1]struct{} = [1 + codeTimeout - C.KPX_TIMEOUT]struct{}{}
	_ [1]struct{} = [1 + codeNoVulkan - C.KPX_NO_VULKAN]struct{}{}
	_ [1]struct{} = [1 + codeTooLarge - C.KPX_TOO_LARGE]struct{}{}
	_ [1]struct{} = [1 + codeStale - C.KPX_STALE]struct{}{}
	_ [1]struct{} = [1 + codeUnreadable - C.KPX_UNREADABLE]struct{}{}
	_ [1]struct{} = [1 + codeDriver - C.KPX_DRIVER]struct{}{}

	_ [1]struct{} = [1 + AccessRead - C.KPX_READ]struct{}{}
	_ [1]struct{} = [1 + AccessWrite - C.KPX_WRITE]struct{}{}
	_ [1]struct{} = [1 + AccessReadWrite - C.KPX_READ_WRITE]struct{}{}

	_ [1]struct{} = [1 + KernelUsable - C.KPX_VARIANT_USABLE]struct{}{}
	_ [1]struct{} = [1 + KernelMissing - C.KPX_VARIANT_MISSING]struct{}{}
	_ [1]struct{} = [1 + KernelDisabled - C.KPX_VARIANT_DISABLED]struct{}{}
	_ [1]struct{} = [1 + KernelRefused - C.KPX_VARIANT_REFUSED]struct{}{}

	_ [1]struct{} = [1 + timeNothing - C.KPX_TIME_NOTHING]struct{}{}
	_ [1]struct{} = [1 + timeSums - C.KPX_TIME_SUMS]struct{}{}
	_ [1]struct{} = [1 + timeSpans - C.KPX_TIME_SPANS]struct{}{}

	_ [1]struct{} = [1 + array.MaxRank - C.KPX_MAX_RANK]struct{}{}
	_ [1]struct{} = [1 + mostReplays - C.KPX_MOST_REPLAYS]struct{}{}
)
