// The types behind the opaque pointers of kpx.h: each shares ownership of an object.
#pragma once

#include <memory>

#include "abi/kpx.h"

namespace kpx {
class Algorithm;
class Device;
class Gate;
class Region;
class Stream;
class Tensor;

// Throws KPX_INVALID for a null handle.
const std::shared_ptr<Tensor> &tensor_of(const kpx_tensor *handle);
const std::shared_ptr<Device> &device_of(const kpx_device *handle);
const std::shared_ptr<Stream> &stream_of(const kpx_stream *handle);
const std::shared_ptr<Algorithm> &algorithm_of(const kpx_algorithm *handle);
const std::shared_ptr<Region> &region_of(const kpx_region *handle);
} // namespace kpx

struct kpx_device {
    std::shared_ptr<kpx::Device> object;
};
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
