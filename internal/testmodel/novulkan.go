//go:build !cgo || nogpu

package testmodel

// VulkanBuilt says that Vulkan is not compiled in: tests run on the CPU alone.
const VulkanBuilt = false
