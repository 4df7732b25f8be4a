#include "graph/views.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/memory.hpp"

namespace kpx {

bool same_view(const Array &a, const Array &b) {
    if (a.buffer != b.buffer || a.dtype != b.dtype || a.rank != b.rank || a.base != b.base || a.offset != b.offset) {
        return false;
    }
    for (uint32_t i = 0; i < a.rank; i++) {
        if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && a.strides[i] != b.strides[i])) {
            return false;
        }
    }
    return true;
}

bool same_data(const Array &a, const Array &b) {
    return a.buffer == b.buffer && a.dtype == b.dtype && a.base == b.base && a.offset == b.offset &&
           a.size() == b.size() && a.contiguous() && b.contiguous();
}

ByteRange bytes_of(const Array &a) {
    if (a.buffer == nullptr || a.size() == 0) {
        return {0, 0};
    }
    const uint64_t size = a.element_size();
    return {a.base + uint64_t(a.offset) * size, a.base + uint64_t(a.last() + 1) * size};
}

bool overlaps(const Array &a, const Array &b) {
    if (a.buffer == nullptr || a.buffer != b.buffer) {
        return false;
    }
    const ByteRange x = bytes_of(a), y = bytes_of(b);
    return x.start < y.end && y.start < x.end;
}

bool covers_buffer(const Array &a) {
    if (a.buffer == nullptr || a.base != 0 || a.offset != 0 ||
        uint64_t(a.size()) * a.element_size() < a.buffer->bytes()) {
        return false;
    }
    // Dense in any order of axes: sorted by stride, each is the product of those below.
    std::vector<std::pair<int64_t, int64_t>> axes;
    for (uint32_t i = 0; i < a.rank; i++) {
        if (a.shape[i] != 1) {
            axes.emplace_back(a.strides[i], a.shape[i]);
        }
    }
    std::sort(axes.begin(), axes.end());
    int64_t expected = 1;
    for (const auto &axis : axes) {
        if (axis.first != expected) {
            return false;
        }
        expected *= axis.second;
    }
    return true;
}

bool is_transient(const Array &a) {
    return a.buffer != nullptr && a.buffer->closed();
}

} // namespace kpx
