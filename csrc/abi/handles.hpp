// The types behind the opaque pointers of kpx.h: each shares ownership of an object.
#pragma once

#include <memory>

#include "abi/error.hpp"
#include "abi/kpx.h"

namespace kpx {
class Algorithm;
class Device;
class Gate;
class Region;
class Stream;
class Tensor;
} // namespace kpx

struct kpx_device {
    std::shared_ptr<kpx::Device> object;
};
// Part of the tensor, which it owns until it is destroyed.
struct kpx_tensor {
    std::shared_ptr<kpx::Tensor> object;
};
struct kpx_stream {
    std::shared_ptr<kpx::Stream> object;
};
struct kpx_gate {
    std::shared_ptr<kpx::Gate> object;
};
struct kpx_region {
    std::shared_ptr<kpx::Region> object;
};
struct kpx_algorithm {
    std::shared_ptr<kpx::Algorithm> object;
};

namespace kpx {

// Throws KPX_INVALID for an argument that is null.
inline void require(const void *argument, const char *what) {
    if (argument == nullptr) {
        fail(KPX_INVALID, "no {} given", what);
    }
}

// Throws KPX_INVALID for a null handle.
template <typename Handle> auto &object_of(Handle *handle, const char *what) {
    if (handle == nullptr || !handle->object) {
        fail(KPX_INVALID, "no {} was given", what);
    }
    return handle->object;
}

inline const std::shared_ptr<Tensor> &tensor_of(const kpx_tensor *handle) {
    return object_of(handle, "tensor");
}
inline const std::shared_ptr<Device> &device_of(const kpx_device *handle) {
    return object_of(handle, "device");
}
inline const std::shared_ptr<Stream> &stream_of(const kpx_stream *handle) {
    return object_of(handle, "stream");
}
inline const std::shared_ptr<Algorithm> &algorithm_of(const kpx_algorithm *handle) {
    return object_of(handle, "algorithm");
}
inline const std::shared_ptr<Region> &region_of(const kpx_region *handle) {
    return object_of(handle, "region");
}

} // namespace kpx
