#include "record/append.hpp"

#include "record/lowering.hpp"
#include "runtime/algorithm.hpp"

namespace kpx {

namespace {

// A checked call with its arrays. An access that was not given counts as both.
void fill_node(OpNode &node, int32_t op, Device &device, const kpx_array *arrays, uint32_t n) {
    node.op = op;
    for (uint32_t i = 0; i < n; i++) {
        node.arrays.push_back(make_array(device, arrays[i]));
        const bool given = arrays[i].access >= KPX_READ && arrays[i].access <= KPX_READ_WRITE;
        node.access.push_back(given ? kpx_access(arrays[i].access) : KPX_READ_WRITE);
    }
}

} // namespace

bool append_call(Device &device, Window &window, const RawCall &call, const CallWords *words) {
    const auto fill = [&](OpNode &node) {
        const auto *bytes = static_cast<const uint8_t *>(call.params);
        fill_node(node, call.op, device, call.arrays, call.n);
        node.params.assign(bytes, bytes + call.size);
    };
    const auto lower = [&](const OpNode &node, Program &program) {
        const OpCall lowered{node.arrays.data(), call.n, node.params.data(), call.size};
        lower_call(device, program, call.op, lowered, window.captured() ? ScratchMemory::later : ScratchMemory::now,
                   Making::without_mutex, words == nullptr ? nullptr : &window.log());
    };
    return window.append(fill, lower, words);
}

bool append_call(Device &device, Window &window, const DispatchCall &call) {
    const auto fill = [&](OpNode &node) { fill_node(node, OpNode::kOpaque, device, call.arrays, call.n); };
    return window.append(fill, [&](const OpNode &node, Program &program) {
        append_algorithm(device, program, call.algorithm, node.arrays, call.arrays, call.groups, call.push,
                         call.push_bytes);
    });
}

} // namespace kpx
