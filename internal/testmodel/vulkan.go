//go:build cgo && !nogpu

package testmodel

// VulkanBuilt says that Vulkan is compiled in: a test that then finds no Vulkan
// device must fail, since passing on the CPU alone would go unnoticed.
const VulkanBuilt = true
