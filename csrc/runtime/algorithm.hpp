// The caller's own SPIR-V, checked and built.
#pragma once

#include <memory>

#include <vulkan/vulkan.hpp>

#include "record/program.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"

namespace kpx {

class Algorithm {
  public:
    // Throws KPX_INVALID or KPX_UNSUPPORTED if the shader cannot run here.
    Algorithm(std::shared_ptr<Device> device, const uint32_t *spirv, uint64_t words, uint32_t bindings,
              const uint32_t *spec, uint32_t n_spec, uint32_t push_bytes, uint32_t subgroup_size);
    ~Algorithm();
    Algorithm(const Algorithm &) = delete;
    Algorithm &operator=(const Algorithm &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    const Layout &layout() const { return layout_; }
    const Numbered<vk::Pipeline> &pipeline() const { return pipeline_; }
    uint32_t push_bytes() const { return push_bytes_; }
    uint64_t writes() const { return writes_; } // bit i: the shader may write binding i

  private:
    std::shared_ptr<Device> device_;
    Layout layout_;
    Numbered<vk::Pipeline> pipeline_;
    uint32_t push_bytes_;
    uint64_t writes_ = 0;
};

// Throws what append_algorithm throws for these arrays, whose content need not be ready, and groups.
void check_dispatch(const Algorithm &algorithm, const kpx_array *arrays, uint32_t n, Grid groups);

// Appends one dispatch of these arrays, made from those given. Throws KPX_INVALID if arrays, groups or push constants
// do not fit, and KPX_TOO_LARGE for an array that no binding can span.
void append_algorithm(Device &device, Program &program, const std::shared_ptr<Algorithm> &algorithm,
                      const std::vector<Array> &arrays, const kpx_array *given, Grid groups, const void *push,
                      uint32_t push_bytes);

} // namespace kpx
