// kp::Tensor and kp::Sequence, made with every result checked.
#pragma once

#include <memory>

#include <kompute/Sequence.hpp>
#include <kompute/Tensor.hpp>

namespace kpx {

class Device;
struct Queue;

// bytes: a multiple of 4 below 4 GiB. An eHost tensor is mapped and zeroed;
// read_by_host asks for cached memory. Throws an Error when the driver refuses.
std::shared_ptr<kp::Tensor> make_tensor(Device &device, kp::Tensor::TensorTypes type, uint64_t bytes,
                                        bool read_by_host = false);

// A sequence for one recording: Kompute's command pools cannot be reset, so
// none is recorded twice.
std::shared_ptr<kp::Sequence> make_sequence(Device &device, const Queue &queue);

} // namespace kpx
