// The tensors that a call makes for its results.
#pragma once

#include <memory>

#include "abi/handles.hpp"
#include "cache/tensor.hpp"

namespace kpx {

// Makes a tensor for each array that asks for one, and destroys them unless they are kept.
class CreatedTensors {
  public:
    CreatedTensors(const std::shared_ptr<Device> &device, kpx_array *arrays, uint32_t n) : arrays_(arrays), n_(n) {
        for (uint32_t i = 0; i < n; i++) {
            if (arrays[i].create != 0) {
                arrays[i].tensor = nullptr;
            }
        }
        try {
            for (uint32_t i = 0; i < n; i++) {
                if (arrays[i].create != 0) {
                    create(device, arrays[i]);
                }
            }
        } catch (...) {
            destroy();
            throw;
        }
    }
    ~CreatedTensors() {
        if (!kept_) {
            destroy();
        }
    }
    CreatedTensors(const CreatedTensors &) = delete;
    CreatedTensors &operator=(const CreatedTensors &) = delete;
    void keep() { kept_ = true; }

  private:
    static void create(const std::shared_ptr<Device> &device, kpx_array &array);
    void destroy() noexcept;

    kpx_array *const arrays_;
    const uint32_t n_;
    bool kept_ = false;
};

} // namespace kpx
