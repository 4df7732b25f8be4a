// Copies between device memory and staging, as dispatches: Kompute's storage
// tensors allow no transfer commands.
#pragma once

#include <memory>

#include "record/program.hpp"

namespace kpx {

class Device;
struct OpNode;

// One end of a copy.
struct TransferEnd {
    Numbered<vk::Buffer> buffer;
    uint64_t offset; // bytes
    std::shared_ptr<const void> owner;
    Buffer *storage = nullptr; // the owner as a Buffer, unless it is a staging block
};

// Appends a dispatch that copies bytes; the offsets must be equal modulo 4.
void append_transfer(Device &device, Program &program, const TransferEnd &from, const TransferEnd &to, uint64_t bytes);

// Fills an empty node with the copy as the passes see it.
void fill_transfer(OpNode &node, const std::shared_ptr<Buffer> &buffer, uint64_t offset, uint64_t bytes,
                   kpx_access access);

} // namespace kpx
