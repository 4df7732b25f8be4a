// What ops, reads, writes and replays do with tensors: bring their content to
// where it is needed, and put work after the work of other streams that it
// depends on. The only code that decides where content is current.
#pragma once

#include "cache/tensor.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Throws KPX_INVALID for a null handle.
const std::shared_ptr<Tensor> &tensor_of(const kpx_tensor *handle);

// What work is about to do with a tensor.
struct Access {
    bool needs;  // the content matters, or some of it is left alone
    bool writes; // some of it
};
// Of an op's operand. A view that covers the tensor and is only written needs nothing.
Access access_of(const kpx_array &array);

// Gives the tensor device memory, with current content if that is needed, and has the stream's work from here on come
// after what others do with it. May release the lock while it copies or waits. content_later: the work is captured,
// and each replay asks for the content.
void make_ready(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, Access access,
                bool content_later = false);
// All operands of an op; a null tensor is absent.
void make_ready(Lock &lock, Stream &stream, const kpx_array *arrays, uint32_t n);

// kpx_tensor_write.
void write_tensor(Stream &stream, const std::shared_ptr<Tensor> &tensor, uint64_t offset, const void *data,
                  uint64_t bytes);

} // namespace kpx
