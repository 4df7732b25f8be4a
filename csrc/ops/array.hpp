// A tensor's view as lowerings and passes see it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "abi/kpx.h"
#include "types.h"

namespace kpx {

class Buffer;

// Bytes of an element, 0 for an unknown dtype.
uint32_t element_size(uint32_t dtype);

// A view of device storage: like the C ABI's kpx_array, but it owns its buffer.
struct Array {
    std::shared_ptr<Buffer> buffer;
    uint32_t dtype = 0;
    uint32_t rank = 0;
    uint64_t base = 0;  // bytes into the buffer where a binding of this view starts, aligned as the device asks
    int64_t offset = 0; // elements from base; strides count elements too
    std::array<int64_t, KPX_MAX_RANK> shape{};
    std::array<int64_t, KPX_MAX_RANK> strides{};

    explicit operator bool() const { return buffer != nullptr; }
    int64_t size() const;
    int64_t dim(int axis) const { return shape[axis < 0 ? axis + int(rank) : axis]; }
    int64_t stride(int axis) const { return strides[axis < 0 ? axis + int(rank) : axis]; }
    bool contiguous() const;
    int64_t last() const; // the offset of the last element
    void pack();          // gives it the strides of contiguous elements
    uint32_t element_size() const { return kpx::element_size(dtype); }
};

static_assert(KPX_MAX_RANK == MAX_RANK, "the C ABI's number");

} // namespace kpx
