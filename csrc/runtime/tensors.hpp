// kp::Tensor, made with every result checked.
#pragma once

#include <memory>

#include <kompute/Tensor.hpp>

#include "runtime/numbered.hpp"

namespace kpx {

class Device;

// bytes: a multiple of 4 below 4 GiB. An eHost tensor is mapped and zeroed;
// read_by_host asks for cached memory. Throws an Error when the driver refuses.
std::shared_ptr<kp::Tensor> make_tensor(Device &device, kp::Tensor::TensorTypes type, uint64_t bytes,
                                        bool read_by_host = false);

// Its Vulkan buffer, with a new number: call it once, when the tensor is made.
Numbered<vk::Buffer> buffer_of(kp::Tensor &tensor);

} // namespace kpx
