// Zeros in device memory before anything uses it.
#pragma once

#include "runtime/memory.hpp"

namespace kpx {

// Fills a block with zeros, and waits until that is done. Throws the driver's errors, and KPX_TIMEOUT and marks the
// device as hung if it takes too long.
void zero(Device &device, const Block &block);

} // namespace kpx
