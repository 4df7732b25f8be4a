//go:build !cgo || nogpu

package kompute

import "fmt"

// errBuiltWithout is why there are no Vulkan devices in this build.
var errBuiltWithout = fmt.Errorf("%w: built without Vulkan (CGO_ENABLED=0 or -tags nogpu)", ErrNoVulkan)

func vulkanDevices() ([]DeviceInfo, error) { return nil, errBuiltWithout }

func openVulkan(DeviceInfo, options) (*Device, error) { return nil, errBuiltWithout }
