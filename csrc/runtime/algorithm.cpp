#include "runtime/algorithm.hpp"

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "record/lowering.hpp"
#include "runtime/spirv.hpp"

namespace kpx {

constexpr uint32_t kMostBindings = 64;

// 0 asks for nothing.
static void check_subgroup_size(const SubgroupSizes &sizes, uint32_t size) {
    if (size == 0) {
        return;
    }
    if (sizes.max == 0) {
        fail(KPX_UNSUPPORTED, "on this device, a shader cannot choose its subgroup size");
    }
    if ((size & (size - 1)) != 0 || size < sizes.min || size > sizes.max) {
        fail(KPX_UNSUPPORTED, "subgroups of {}: this device has powers of two from {} to {}", size, sizes.min,
             sizes.max);
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
    writes_ = check_spirv(*device_, spirv, words, {bindings, spec, n_spec, push_bytes, subgroup_size});
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

// Whether the elements are in row-major order, without gaps.
static bool is_contiguous(const kpx_array &array) {
    if (std::find(array.shape, array.shape + array.rank, 0) != array.shape + array.rank) {
        return true; // it is empty
    }
    int64_t stride = 1;
    for (uint32_t i = array.rank; i-- > 0;) {
        if (array.shape[i] != 1 && array.strides[i] != stride) {
            return false;
        }
        stride *= array.shape[i];
    }
    return true;
}

static void check_bound(const Device &device, const kpx_array &array, uint32_t i) {
    if (array.tensor == nullptr) {
        fail(KPX_INVALID, "tensor {} is absent", i);
    }
    const uint64_t start = uint64_t(array.offset) * check_view(array);
    if (!is_contiguous(array)) {
        fail(KPX_INVALID, "tensor {} is a view with gaps or a changed order: copy it first", i);
    }
    if (start % device.binding_alignment() != 0) {
        fail(KPX_INVALID,
             "tensor {} starts {} bytes into its storage, where a binding of this device cannot start: copy it first",
             i, start);
    }
    if (array.access < KPX_READ || array.access > KPX_READ_WRITE) {
        fail(KPX_INVALID, "no access is given for tensor {}", i);
    }
}

static uint64_t bytes_of(const kpx_array &array) {
    uint64_t bytes = check_view(array);
    for (uint32_t i = 0; i < array.rank; i++) {
        bytes *= uint64_t(array.shape[i]);
    }
    return bytes;
}

void check_dispatch(const Algorithm &algorithm, const kpx_array *arrays, uint32_t n, Grid groups) {
    const Device &device = *algorithm.device();
    if (n != algorithm.layout().bindings) {
        fail(KPX_INVALID, "the algorithm binds {} tensors, not {}", algorithm.layout().bindings, n);
    }
    if (groups.x == 0 || groups.y == 0 || groups.z == 0) {
        fail(KPX_INVALID, "{} x {} x {} workgroups do nothing", groups.x, groups.y, groups.z);
    }
    check_grid(device, groups);
    for (uint32_t i = 0; i < n; i++) {
        check_bound(device, arrays[i], i);
        const uint64_t bytes = bytes_of(arrays[i]), most = device.limits().maxStorageBufferRange;
        if (bytes > most) {
            throw Error(KPX_TOO_LARGE,
                        formatted("tensor {} has {} bytes, beyond this device's limit of {}", i, bytes, most), bytes,
                        most);
        }
    }
}

void append_algorithm(Device &device, Program &program, const std::shared_ptr<Algorithm> &algorithm,
                      const std::vector<Array> &arrays, const kpx_array *given, Grid groups, const void *push,
                      uint32_t push_bytes) {
    if (algorithm->device().get() != &device) {
        fail(KPX_INVALID, "the algorithm was made for another device than the stream's");
    }
    if (push_bytes != algorithm->push_bytes() || (push_bytes > 0 && push == nullptr)) {
        fail(KPX_INVALID, "the algorithm takes {} bytes of push constants, not {}", algorithm->push_bytes(),
             push_bytes);
    }
    check_dispatch(*algorithm, given, uint32_t(arrays.size()), groups);
    for (size_t i = 0; i < arrays.size(); i++) {
        program.use(use_of(device, arrays[i], kpx_access(given[i].access)));
    }
    program.dispatch({algorithm->pipeline(), algorithm->layout()}, "custom", push, push_bytes, groups, algorithm);
}

} // namespace kpx
