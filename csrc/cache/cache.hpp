// What ops, reads, writes and replays do with tensors: bring their content to
// where it is needed, and put work after the work of other streams that it
// depends on. The only code that decides where content is current.
#pragma once

#include "abi/handles.hpp"
#include "cache/tensor.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Whether the view has one element on each place of the tensor.
bool covers(const kpx_array &view);

// What work is about to do with a tensor.
struct Access {
    bool needs;           // the content matters, or some of it is left alone
    bool writes;          // some of it
    bool counted = false; // as a hit or a miss, by the caller
};
// Of an op's operand. A view that covers the tensor and is only written needs nothing.
Access access_of(const kpx_array &array);

// Gives the tensor device memory, with current content if that is needed, and has the stream's work from here on come
// after what others do with it. May release the lock while it copies or waits, and then returns true: tensors that were
// ready before may not be any more. content_later: the work is captured, and each replay asks for the content.
bool make_ready(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, Access access,
                bool content_later = false);
// All operands of an op, at once; a null tensor is absent.
void make_ready(Lock &lock, Stream &stream, const kpx_array *arrays, uint32_t n);

// Appends the copy of host memory to the device, in pieces that share staging memory with other uploads. The tensor is
// ready; the caller notes who wrote it. May release the lock, and then returns true. When it throws, some of the copy
// may be appended or done: the tensor remembers that as an upload to be made again.
bool send(Lock &lock, Stream &stream, Tensor &tensor, uint64_t offset, const uint8_t *data, uint64_t bytes);

// kpx_tensor_write.
void write_tensor(Stream &stream, const kpx_array &view, const void *data);

} // namespace kpx
