#include "runtime/tensors.hpp"

#include <cstdlib>

#include "abi/error.hpp"
#include "abi/guard.hpp"
#include "runtime/creation_check.hpp"
#include "runtime/device.hpp"

namespace kpx {

std::shared_ptr<kp::Tensor> make_tensor(Device &device, kp::Tensor::TensorTypes type, uint64_t bytes,
                                        bool read_by_host) {
    if (bytes == 0 || bytes % 4 != 0 || bytes > UINT32_MAX) {
        fail(KPX_INTERNAL, "make_tensor: {} bytes", bytes);
    }
    // Kompute copies this many bytes into a host tensor, from memory that must be valid.
    std::unique_ptr<void, void (*)(void *)> zeros(nullptr, free);
    if (type != kp::Tensor::TensorTypes::eStorage) {
        zeros.reset(calloc(bytes, 1));
        if (!zeros) {
            throw std::bad_alloc();
        }
    }
    CreationCheck created(device.handle(), read_by_host ? CreationCheck::Memory::cached : CreationCheck::Memory::any);
    std::shared_ptr<kp::Tensor> tensor;
    try {
        tensor = std::make_shared<kp::Tensor>(device.shared_physical(), device.shared_handle(), zeros.get(),
                                              uint32_t(bytes / 4), 4, kp::Tensor::TensorDataTypes::eUnsignedInt, type);
    } catch (const std::exception &e) {
        created.rethrow("creating a tensor");
        const Error error = current_error();
        if (error.code != KPX_INTERNAL) {
            throw;
        }
        fail(KPX_DRIVER, "creating a tensor: {}", e.what()); // no memory type serves
    }
    created.done("creating a tensor");
    return tensor;
}

Numbered<vk::Buffer> buffer_of(kp::Tensor &tensor) {
    return Numbered<vk::Buffer>(tensor.constructDescriptorBufferInfo().buffer);
}

} // namespace kpx
