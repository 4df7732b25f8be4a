// Package faulttest makes Vulkan calls fail, one at a time, and checks how the
// binding reacts. Its tests put the fault loader (csrc/tests/faults) in
// place of the Vulkan loader; Control is how they talk to it.
package faulttest
