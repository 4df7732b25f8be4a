#include "ops/array.hpp"

#include <algorithm>

namespace kpx {

int64_t Array::size() const {
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) {
        n *= shape[i];
    }
    return n;
}

bool Array::contiguous() const {
    int64_t expected = 1;
    for (uint32_t i = rank; i-- > 0;) {
        if (shape[i] == 0) {
            return true;
        }
        if (shape[i] != 1 && strides[i] != expected) {
            return false;
        }
        expected *= shape[i];
    }
    return true;
}

int64_t Array::last() const {
    int64_t last = offset;
    for (uint32_t i = 0; i < rank; i++) {
        last += std::max<int64_t>(shape[i] - 1, 0) * strides[i];
    }
    return last;
}

void Array::pack() {
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0; stride *= shape[i]) {
        strides[i] = stride;
    }
}

uint32_t element_size(uint32_t dtype) {
    switch (dtype) {
    case DT_FLOAT32:
    case DT_INT32:
    case DT_UINT32:
        return 4;
    case DT_FLOAT16:
    case DT_BFLOAT16:
        return 2;
    case DT_BOOL:
    case DT_UINT8:
        return 1;
    default:
        return 0;
    }
}

} // namespace kpx
