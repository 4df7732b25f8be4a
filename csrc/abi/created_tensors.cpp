#include "abi/created_tensors.hpp"

#include "ops/op.hpp"
#include "runtime/device.hpp"

namespace kpx {

void CreatedTensors::create(const std::shared_ptr<Device> &device, kpx_array &array) {
    uint64_t bytes = element_size(array.dtype);
    if (array.access != KPX_WRITE || array.rank > KPX_MAX_RANK || bytes == 0) {
        fail(KPX_INVALID, "no tensor can be made for an operand of {} axes and dtype {} that is accessed by {}",
             array.rank, array.dtype, array.access);
    }
    for (uint32_t i = 0; i < array.rank; i++) {
        if (array.shape[i] < 0 || __builtin_mul_overflow(bytes, uint64_t(array.shape[i]), &bytes)) {
            fail(KPX_INVALID, "no tensor can be made with an axis of {} elements", array.shape[i]);
        }
    }
    device->memory().check_size(bytes);
    array.tensor = handle_of(Tensor::create(device, bytes));
}

void CreatedTensors::destroy() noexcept {
    for (uint32_t i = 0; i < n_; i++) {
        if (arrays_[i].create != 0 && arrays_[i].tensor != nullptr) {
            kpx_tensor_destroy(arrays_[i].tensor);
            arrays_[i].tensor = nullptr;
        }
    }
}

} // namespace kpx
