#include "record/transfer.hpp"

#include "abi/error.hpp"
#include "gen_kernels.hpp"
#include "graph/graph.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"
#include "types.h"

namespace kpx {

namespace {

constexpr uint32_t kWordsPerGroup = 256; // of shaders/transfer.comp

// The binding that covers the bytes at offset, and the word in it where they start.
Use cover(const Device &device, const TransferEnd &end, uint64_t bytes, kpx_access access, uint32_t *word) {
    const uint64_t base = end.offset - end.offset % device.binding_alignment();
    *word = uint32_t((end.offset - base) / 4);
    const uint64_t stop = (end.offset + bytes + 3) & ~uint64_t(3);
    return {end.buffer, base, stop - base, access, end.owner, end.storage};
}

} // namespace

void append_transfer(Device &device, Program &program, const TransferEnd &from, const TransferEnd &to, uint64_t bytes) {
    using Kernel = spec::transfer;
    using Uses = Kernel::BindingsOf<Use>;
    TransferParams params;
    program.use_all(Uses{.src = cover(device, from, bytes, KPX_READ, &params.src),
                         .dst = cover(device, to, bytes, KPX_WRITE, &params.dst)});
    const uint32_t lead = uint32_t(to.offset % 4);
    const uint32_t tail = uint32_t((to.offset + bytes) % 4);
    params.words = uint32_t((lead + bytes + 3) / 4);
    params.first_mask = 0xffffffffu << (8 * lead);
    params.last_mask = tail == 0 ? 0xffffffffu : 0xffffffffu >> (32 - 8 * tail);
    if (params.words == 1) {
        params.first_mask &= params.last_mask;
    }
    const Pipeline pipeline = device.kernels().irreplaceable(Kernel::kKernel, Program::count_of<Uses>());
    const uint32_t groups = (params.words + kWordsPerGroup - 1) / kWordsPerGroup;
    program.dispatch(pipeline, Kernel::kKernel, &params, sizeof params, {groups, 1, 1});
}

void fill_transfer(OpNode &node, const std::shared_ptr<Buffer> &buffer, uint64_t offset, uint64_t bytes,
                   kpx_access access) {
    Array array;
    array.buffer = buffer;
    array.dtype = DT_UINT8;
    array.rank = 1;
    array.offset = int64_t(offset);
    array.shape[0] = int64_t(bytes);
    array.strides[0] = 1;
    node.arrays.push_back(std::move(array));
    node.access.push_back(access);
}

} // namespace kpx
