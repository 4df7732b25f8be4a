#include "stream/upload_staging.hpp"

#include <cstring>

#include "cache/host_memory.hpp"
#include "runtime/device.hpp"

namespace kpx {

UploadStaging::Place UploadStaging::room(uint64_t bytes, uint64_t phase) {
    const bool large = bytes > Staging::kSmall / 4;
    std::shared_ptr<HostBlock> &block = blocks_[large];
    if (block && block.use_count() == 1) {
        block->used = 0; // nothing pending or in flight reads it
    }
    const uint64_t alignment = device_.binding_alignment();
    uint64_t offset = block ? (block->used + alignment - 1) / alignment * alignment + phase : 0;
    if (!block || offset + bytes > block->bytes) {
        block = device_.staging().take(Staging::For::upload, large ? Staging::kLarge : Staging::kSmall);
        offset = phase;
    }
    block->used = offset + bytes;
    return {block, offset};
}

UploadStaging::Place UploadStaging::put(const void *data, uint64_t bytes, uint64_t phase, bool wrapped) {
    const Place place = room(bytes, phase);
    uint8_t *to = place.block->data + place.offset;
    if (wrapped) {
        copy_wrapped(to, data, bytes);
    } else {
        memcpy(to, data, bytes);
    }
    return place;
}

} // namespace kpx
