// A write of a tensor's bytes: the only way from the host to a tensor.
#pragma once

#include "stream/stream.hpp"

namespace kpx {

// kpx_tensor_write: fills the view with that many bytes in row-major order, or with zeros if data is null.
void write_tensor(Stream &stream, const kpx_array &view, const void *data, uint64_t bytes);

} // namespace kpx
