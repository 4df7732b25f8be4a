// How views of one buffer relate.
#pragma once

#include <cstdint>

#include "ops/array.hpp"

namespace kpx {

// The same elements in the same order and shape (strides of axes of size 1 do not count).
bool same_view(const Array &a, const Array &b);
// Both contiguous, with the same bytes and dtype: one is a reshape of the other.
bool same_data(const Array &a, const Array &b);
// Whether the byte ranges of the two views, from first to last element, overlap.
bool overlaps(const Array &a, const Array &b);
// Every byte of the buffer belongs to exactly one element (padding after the last does not count).
bool covers_buffer(const Array &a);
// The range of its elements in the buffer, gaps included; empty if it has none.
struct ByteRange {
    uint64_t start, end;
};
ByteRange bytes_of(const Array &a);
// Whether the handle of its buffer was destroyed, so that only earlier work sees it.
bool is_transient(const Array &a);

} // namespace kpx
