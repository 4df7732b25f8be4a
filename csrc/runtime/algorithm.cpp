#include "runtime/algorithm.hpp"

#include "abi/error.hpp"
#include "record/lowering.hpp"
#include "runtime/spirv.hpp"

namespace kpx {

constexpr uint32_t kMostBindings = 64;

// 0 asks for nothing.
static void check_subgroup_size(const SubgroupSizes &sizes, uint32_t size) {
    if (size == 0) {
        return;
    }
    if (sizes.most == 0) {
        fail(KPX_UNSUPPORTED, "on this device, a shader cannot choose its subgroup size");
    }
    if ((size & (size - 1)) != 0 || size < sizes.least || size > sizes.most) {
        fail(KPX_UNSUPPORTED, "subgroups of {}: this device has powers of two from {} to {}", size, sizes.least,
             sizes.most);
    }
}

Algorithm::Algorithm(std::shared_ptr<Device> device, const uint32_t *spirv, uint64_t words, uint32_t bindings,
                     const uint32_t *spec, uint32_t n_spec, uint32_t push_bytes, uint32_t subgroup_size)
    : device_(std::move(device)), push_bytes_(push_bytes) {
    device_->check_alive();
    const uint32_t most = std::min(kMostBindings, device_->limits().maxPerStageDescriptorStorageBuffers);
    if (bindings == 0 || bindings > most) {
        fail(KPX_INVALID, "an algorithm binds 1 to {} tensors, not {}", most, bindings);
    }
    if (push_bytes % 4 != 0 || push_bytes > device_->limits().maxPushConstantsSize) {
        fail(KPX_INVALID, "push constants of {} bytes: this device takes a multiple of 4, at most {}", push_bytes,
             device_->limits().maxPushConstantsSize);
    }
    if (n_spec > SpecConstants::kMost || (n_spec > 0 && spec == nullptr)) {
        fail(KPX_INVALID, "{} specialization constants; the most is {}", n_spec, SpecConstants::kMost);
    }
    check_subgroup_size(device_->subgroup_sizes(), subgroup_size);
    check_spirv(*device_, spirv, words, bindings, spec, n_spec);
    SpecConstants constants;
    constants.count = n_spec;
    std::copy(spec, spec + n_spec, constants.values.begin());
    Kernels &kernels = device_->kernels();
    layout_ = kernels.layout(bindings, push_bytes);
    const vk::UniqueShaderModule module(kernels.load(spirv, words * 4), device_->handle());
    pipeline_ = kernels.build(*module, constants, layout_, {subgroup_size, false});
}

Algorithm::~Algorithm() {
    device_->handle().destroyPipeline(pipeline_);
}

void append_algorithm(Device &device, Program &program, const std::shared_ptr<Algorithm> &algorithm,
                      const std::vector<Array> &arrays, const kpx_array *given, Grid groups, const void *push,
                      uint32_t push_bytes) {
    const auto n = uint32_t(arrays.size());
    if (algorithm->device().get() != &device) {
        fail(KPX_INVALID, "the algorithm was made for another device than the stream's");
    }
    if (n != algorithm->layout().bindings) {
        fail(KPX_INVALID, "the algorithm binds {} tensors, not {}", algorithm->layout().bindings, n);
    }
    if (push_bytes != algorithm->push_bytes() || (push_bytes > 0 && push == nullptr)) {
        fail(KPX_INVALID, "the algorithm takes {} bytes of push constants, not {}", algorithm->push_bytes(),
             push_bytes);
    }
    if (groups.x == 0 || groups.y == 0 || groups.z == 0) {
        fail(KPX_INVALID, "{} x {} x {} workgroups do nothing", groups.x, groups.y, groups.z);
    }
    check_grid(device, groups);
    for (uint32_t i = 0; i < n; i++) {
        const Array &array = arrays[i];
        if (!array) {
            fail(KPX_INVALID, "tensor {} is absent", i);
        }
        if (!array.contiguous()) {
            fail(KPX_INVALID, "tensor {} is a view with gaps or a changed order: copy it first", i);
        }
        if (array.offset != 0) {
            fail(KPX_INVALID,
                 "tensor {} starts {} bytes into its storage, where a binding of this device cannot start: copy it "
                 "first",
                 i, uint32_t(array.base + uint64_t(array.offset) * array.element_size()));
        }
        if (given[i].access < KPX_READ || given[i].access > KPX_READ_WRITE) {
            fail(KPX_INVALID, "no access is given for tensor {}", i);
        }
        program.use(use_of(device, array, kpx_access(given[i].access)));
    }
    program.dispatch({algorithm->pipeline(), algorithm->layout()}, "custom", push, push_bytes, groups, algorithm);
}

} // namespace kpx
