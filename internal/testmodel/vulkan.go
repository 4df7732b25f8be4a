//go:build cgo && !nogpu

package testmodel

// VulkanBuilt says that Vulkan is compiled in: a test that then finds no Vulkan
// device has to fail, or it would pass on the CPU alone and nobody would see.
const VulkanBuilt = true
