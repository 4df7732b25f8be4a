//go:build !cgo || nogpu

package kompute

import "fmt"

// errNotBuilt is why there are no Vulkan devices in this build.
var errNotBuilt = fmt.Errorf("%w: built without Vulkan (CGO_ENABLED=0 or -tags nogpu)", ErrNoVulkan)

func vulkanDevices() ([]DeviceInfo, error) { return nil, errNotBuilt }

func openVulkan(DeviceInfo, options) (*Device, error) { return nil, errNotBuilt }
