// Package faulttest makes Vulkan calls fail, one at a time, and watches what the
// binding makes of it. Its tests put the fault loader (csrc/tests/faults) in
// place of the Vulkan loader; Control is how they talk to it.
package faulttest
