// A write of a tensor's bytes: the only way from the host to a tensor.
#pragma once

#include "stream/stream.hpp"

namespace kpx {

// kpx_tensor_write: fills the view with the data in row-major order, or with zeros if that is null.
void write_tensor(Stream &stream, const kpx_array &view, const void *data);

} // namespace kpx
