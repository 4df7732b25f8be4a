// Uploads and downloads: a staging block and a dispatch that copies, since
// Kompute's storage tensors allow no transfer commands.
#include <algorithm>
#include <cstring>

#include "abi/error.hpp"
#include "record/lowering.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"
#include "stream/stream.hpp"
#include "types.h"

namespace kpx {

namespace {

constexpr uint32_t kWordsPerGroup = 256; // of shaders/transfer.comp

// The binding that covers bytes at offset, and the word in it where they start.
Use cover(const Device &device, const TransferEnd &end, uint64_t bytes, kpx_access access, uint32_t *word) {
    const uint64_t base = end.offset - end.offset % device.binding_alignment();
    *word = uint32_t((end.offset - base) / 4);
    const uint64_t stop = (end.offset + bytes + 3) & ~uint64_t(3);
    return {end.buffer, base, stop - base, access, end.owner, end.storage};
}

// What a transfer is to the passes.
void fill_transfer(OpNode &node, const std::shared_ptr<Buffer> &buffer, uint64_t offset, uint64_t bytes,
                   kpx_access access) {
    Array array;
    array.buffer = buffer;
    array.dtype = KPX_UINT8;
    array.rank = 1;
    array.offset = int64_t(offset);
    array.shape[0] = int64_t(bytes);
    array.strides[0] = 1;
    node.arrays.push_back(std::move(array));
    node.access.push_back(access);
}

} // namespace

void append_transfer(Device &device, Program &program, const TransferEnd &from, const TransferEnd &to, uint64_t bytes) {
    const EmbeddedKernel *kernel = device.kernels().find("transfer");
    if (kernel == nullptr) {
        fail(KPX_INTERNAL, "this build has no transfer kernel");
    }
    TransferParams params;
    program.use(cover(device, from, bytes, KPX_READ, &params.src));
    program.use(cover(device, to, bytes, KPX_WRITE, &params.dst));
    const uint32_t lead = uint32_t(to.offset % 4);
    const uint32_t tail = uint32_t((to.offset + bytes) % 4);
    params.words = uint32_t((lead + bytes + 3) / 4);
    params.first_mask = 0xffffffffu << (8 * lead);
    params.last_mask = tail == 0 ? 0xffffffffu : 0xffffffffu >> (32 - 8 * tail);
    if (params.words == 1) {
        params.first_mask &= params.last_mask;
    }
    const Pipeline &pipeline = device.kernels().pipeline(*kernel, {}, 2);
    const uint32_t groups = (params.words + kWordsPerGroup - 1) / kWordsPerGroup;
    program.dispatch(pipeline, kernel->kernel, &params, sizeof params, {groups, 1, 1});
}

void Stream::check_range(const Buffer &buffer, uint64_t offset, const void *data, uint64_t bytes) const {
    if (buffer.device() != device_) {
        fail(KPX_INVALID, "the buffer lives on another device than the stream");
    }
    if (offset > buffer.bytes() || bytes > buffer.bytes() - offset) {
        fail(KPX_INVALID, "%llu bytes at %llu are beyond a buffer of %llu bytes", (unsigned long long)bytes,
             (unsigned long long)offset, (unsigned long long)buffer.bytes());
    }
    if (data == nullptr && bytes > 0) {
        fail(KPX_INVALID, "no host memory was given");
    }
}

// Room for bytes in a staging block, at an offset with that phase modulo 4.
Stream::Staged Stream::stage(uint64_t bytes, uint64_t phase) {
    const bool large = bytes > Staging::kSmall / 4;
    std::shared_ptr<HostBlock> &block = upload_blocks_[large];
    if (block && block.use_count() == 1) {
        block->used = 0; // nothing pending or in flight reads it
    }
    const uint64_t alignment = device_->binding_alignment();
    uint64_t offset = block ? (block->used + alignment - 1) / alignment * alignment + phase : 0;
    if (!block || offset + bytes > block->bytes) {
        block = device_->staging().take(Staging::For::upload, large ? Staging::kLarge : Staging::kSmall);
        offset = phase;
    }
    block->used = offset + bytes;
    return {block, offset};
}

void Stream::upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes) {
    device_->check_alive();
    check_range(*buffer, offset, data, bytes);
    const auto *from = static_cast<const uint8_t *>(data);
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t part = std::min(bytes - done, Staging::kLarge - 4);
        throttle();
        upload_part(buffer, offset + done, from + done, part);
        done += part;
    }
    counters_.uploads += bytes > 0;
    counters_.upload_bytes += bytes;
}

void Stream::upload_part(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const uint8_t *data, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t to = buffer->offset() + offset;
    const Staged staged = stage(bytes, to % 4);
    memcpy(staged.block->data + staged.offset, data, bytes);
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_WRITE); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {staged.block->buffer, staged.offset, staged.block},
                        {buffer->handle(), to, buffer, buffer.get()}, bytes);
    });
    staged_ += bytes;
    if (staged_ >= kFlushStaged) {
        submit_pending();
    }
}

void Stream::download(const std::shared_ptr<Buffer> &buffer, uint64_t offset, void *data, uint64_t bytes) {
    device_->check_alive();
    check_range(*buffer, offset, data, bytes);
    struct Part {
        Staged staged;
        uint64_t value;
        uint8_t *to;
        uint64_t bytes;
    };
    auto *to = static_cast<uint8_t *>(data);
    auto finish_part = [this](const Part &part) {
        counters_.waits++;
        timeline_->wait(part.value, UINT64_MAX);
        memcpy(part.to, part.staged.block->data + part.staged.offset, part.bytes);
    };
    // Two parts are under way at a time: one is copied while the device fills the next.
    std::deque<Part> parts;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t size = std::min(bytes - done, Staging::kLarge - 4);
        Part part{{device_->staging().take(Staging::For::download, size + 4), (buffer->offset() + offset + done) % 4},
                  0,
                  to + done,
                  size};
        part.value = download_part(buffer, offset + done, part.staged, size);
        parts.push_back(std::move(part));
        done += size;
        if (parts.size() == 2) {
            finish_part(parts.front());
            parts.pop_front();
        }
    }
    for (const Part &part : parts) {
        finish_part(part);
    }
    collect();
    counters_.downloads += bytes > 0;
    counters_.download_bytes += bytes;
}

void Stream::append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const Staged &to, uint64_t bytes) {
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_READ); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {buffer->handle(), buffer->offset() + offset, buffer, buffer.get()},
                        {to.block->buffer, to.offset, to.block}, bytes);
    });
    window_.read_by_host();
}

uint64_t Stream::download_part(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const Staged &to,
                               uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    append_read(buffer, offset, to, bytes);
    return submit_pending();
}

std::unique_ptr<Read> Stream::read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, uint64_t bytes) {
    device_->check_alive();
    if (buffer->device() != device_ || offset > buffer->bytes() || bytes > buffer->bytes() - offset) {
        fail(KPX_INVALID, "%llu bytes at %llu cannot be read from that buffer", (unsigned long long)bytes,
             (unsigned long long)offset);
    }
    auto made = std::make_unique<Read>(Read{device_, {}});
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t size = std::min(bytes - done, Staging::kLarge - 4);
        const uint64_t phase = (buffer->offset() + offset + done) % 4;
        made->parts.push_back({device_->staging().take(Staging::For::download, size + 4), phase, size});
        done += size;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Read::Part &part : made->parts) {
        append_read(buffer, offset, {part.block, part.offset}, part.bytes);
        offset += part.bytes;
    }
    counters_.downloads += bytes > 0;
    counters_.download_bytes += bytes;
    return made;
}

} // namespace kpx
