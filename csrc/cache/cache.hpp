// What ops, reads, writes and replays do with tensors: copy their content to
// where it is needed, and order work after the work of other streams that it
// depends on. Only this code decides which copies are up to date.
#pragma once

#include "abi/handles.hpp"
#include "cache/tensor.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Whether the view maps its elements one to one to those of the tensor.
bool covers(const kpx_array &view);

// How work is about to use a tensor.
struct Access {
    bool needs;           // the content is read, or only partly overwritten
    bool writes;          // some of it
    bool counted = false; // as a hit or a miss, by the caller
};
// For an op's operand. A view that covers the tensor and is only written does not need its content.
Access access_of(const kpx_array &array);

// Gives the tensor device memory, with up-to-date content if that is needed, and orders the stream's work from now on
// after that of others on the tensor. May release the lock while it copies or waits, and then returns true: tensors
// that were ready before may no longer be. content_later: the work is captured, so each replay will prepare the
// content.
bool make_ready(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, Access access,
                bool content_later = false);
// All operands of an op, at once; a null tensor is absent. counted: as hits or misses, by an earlier call.
void make_ready(Lock &lock, Stream &stream, const kpx_array *arrays, uint32_t n, bool counted);

// Orders the stream's work from now on after that of others on the tensor. False if some of that was refused: then the
// caller checks the tensor again. Does not release the lock.
bool follow_all(Stream &stream, const Tensor &tensor, bool writes);

// Records that work at the point uses the operands of an op.
void note_uses(const kpx_array *arrays, uint32_t n, const std::shared_ptr<Point> &point);

// Appends the copy of host memory to the device, in pieces that share staging memory with other uploads. The tensor is
// ready; the caller records its writer. May release the lock, and then returns true. When it throws, some of the copy
// may be appended or done: the tensor records that the upload must be repeated.
bool send(Lock &lock, Stream &stream, Tensor &tensor, uint64_t offset, const uint8_t *data, uint64_t bytes);

} // namespace kpx
