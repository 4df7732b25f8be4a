#include "record/lowering.hpp"

#include <algorithm>
#include <iterator>

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "cache/cache.hpp"
#include "ops/op_table.hpp"
#include "ops/projection_matrix.hpp"

namespace kpx {

Array ProgramLowering::scratch(uint32_t dtype, std::initializer_list<int64_t> shape) {
    if (shape.size() > KPX_MAX_RANK) {
        fail(KPX_INTERNAL, "scratch of rank {}", shape.size());
    }
    Array array;
    array.dtype = dtype;
    array.rank = uint32_t(shape.size());
    std::copy(shape.begin(), shape.end(), array.shape.begin());
    array.pack();
    const uint64_t bytes = uint64_t(array.size()) * array.element_size();
    if (const uint64_t largest = device_.memory().largest(); bytes > largest) { // the operands are not too large
        unsupported("scratch memory of {} bytes is beyond this device's limit of {}", bytes, largest);
    }
    array.buffer =
        scratch_ == ScratchMemory::later ? device_.memory().allocate_later(bytes) : device_.memory().allocate(bytes);
    array.buffer->close(); // nothing else uses it
    if (log_ != nullptr) {
        log_->add_scratch(*array.buffer, false);
    }
    return array;
}

// Its buffer is not closed, so that no memory plan lets others write there.
Array ProgramLowering::counters(int64_t n) {
    Array array;
    array.dtype = DT_UINT32;
    array.rank = 1;
    array.shape[0] = n;
    array.strides[0] = 1;
    array.buffer = device_.memory().allocate_counters(uint64_t(n) * array.element_size(), making_);
    if (log_ != nullptr) {
        log_->add_scratch(*array.buffer, true);
    }
    return array;
}

bool ProgramLowering::has_kernel(const char *kernel) const {
    return device_.kernels().best(kernel, without_) != nullptr;
}

// The words of a variant's name are joined by underscores.
bool ProgramLowering::runs_variant(const char *kernel, std::string_view word) const {
    const Variant *best = device_.kernels().best(kernel, without_);
    std::string_view left = best == nullptr ? "" : best->code->variant;
    while (!left.empty()) {
        const std::string_view first = left.substr(0, left.find('_'));
        if (first == word) {
            return true;
        }
        left.remove_prefix(std::min(left.size(), first.size() + 1));
    }
    return false;
}

void ProgramLowering::dispatch_bytes(const char *kernel, const uint32_t *spec, uint32_t count, const Binding *bindings,
                                     size_t bound, const void *params, uint32_t size, Grid grid) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
        return;
    }
    check_grid(device_, grid);
    SpecConstants constants;
    if (count > SpecConstants::kMost) {
        fail(KPX_INTERNAL, "kernel {}: {} specialization constants", kernel, count);
    }
    constants.count = count;
    std::copy_n(spec, count, constants.values.begin());
    for (size_t i = 0; i < bound; i++) {
        if (!bindings[i].array) {
            fail(KPX_INTERNAL, "kernel {} binds an absent array", kernel);
        }
    }
    // Passes replace many ops of a region, whose kernels are never needed.
    const bool replayed = scratch_ == ScratchMemory::later;
    const Pipeline pipeline =
        device_.kernels().pipeline(kernel, constants, uint32_t(bound), without_, replayed ? Making::later : making_);
    for (size_t i = 0; i < bound; i++) {
        program_.use(use_of(device_, bindings[i].array, bindings[i].access));
        program_.all_uses().back().overlaps = bindings[i].overlaps;
    }
    program_.dispatch(pipeline, pipeline.variant->code->kernel, params, size, grid, nullptr,
                      replayed ? std::make_shared<const SpecConstants>(constants) : nullptr);
}

// Whether one of them was not there yet.
static bool add_new(Variants &to, const Variants &more) {
    const size_t before = to.size();
    std::copy_if(more.begin(), more.end(), std::back_inserter(to),
                 [&](const Variant *v) { return std::find(to.begin(), to.end(), v) == to.end(); });
    return to.size() > before;
}

void lower_call(Device &device, Program &program, int32_t op, const OpCall &call, ScratchMemory scratch, Making making,
                CallLog *log) {
    const Program::Mark mark = program.mark();
    Variants without; // it grows every time, so this ends
    for (;;) {
        try {
            ProgramLowering lowering(device, program, scratch, making, log, without);
            lower_op(op, lowering, call);
            return;
        } catch (const KernelRefused &refused) {
            if (!add_new(without, refused.variants())) {
                throw; // it chose the same kernel again
            }
            if (log != nullptr) {
                log->drop_unfinished();
            }
            program.cut(mark);
        }
    }
}

uint32_t invariant_rows(Device &device) {
    Program program;
    const Variants without;
    return invariant_rows(ProgramLowering(device, program, ScratchMemory::later, Making::later, nullptr, without));
}

uint64_t check_view(const kpx_array &view) {
    const uint32_t size = element_size(view.dtype);
    if (view.rank > KPX_MAX_RANK) {
        fail(KPX_INVALID, "an array of rank {}; the most is {}", view.rank, KPX_MAX_RANK);
    }
    if (size == 0) {
        fail(KPX_INVALID, "an array of unknown dtype {}", view.dtype);
    }
    // Repeated and empty views may have axes of any length, whose products lowerings compute.
    const int64_t limit = int64_t(tensor_of(view.tensor)->bytes / size);
    int64_t last = view.offset, elements = 1;
    bool is_empty = false;
    if (view.offset < 0 || view.offset > limit) {
        fail(KPX_INVALID, "an array starts at element {} of a tensor of {}", view.offset, limit);
    }
    for (uint32_t i = 0; i < view.rank; i++) {
        if (view.shape[i] < 0 || (view.shape[i] > 1 && view.strides[i] < 0)) {
            fail(KPX_INVALID, "an array has a negative size or stride on axis {}", i);
        }
        is_empty = is_empty || view.shape[i] == 0;
        const int64_t length = std::max<int64_t>(view.shape[i], 1), stride = length > 1 ? view.strides[i] : 0;
        int64_t span = 0;
        if (__builtin_mul_overflow(elements, length, &elements) || __builtin_mul_overflow(length - 1, stride, &span) ||
            __builtin_add_overflow(last, span, &last)) {
            fail(KPX_INVALID, "an array has more elements, or positions of them, than can be counted");
        }
    }
    if (!is_empty && last >= limit) {
        fail(KPX_INVALID, "an array reaches past the end of its tensor of {} elements", limit);
    }
    return size;
}

Array make_array(Device &device, const kpx_array &in) {
    Array out;
    if (in.tensor == nullptr) {
        return out;
    }
    const uint64_t size = check_view(in);
    out.buffer = tensor_of(in.tensor)->buffer;
    if (!out.buffer) {
        fail(KPX_INTERNAL, "an array whose tensor was not made ready");
    }
    out.dtype = in.dtype;
    out.rank = in.rank;
    std::copy(in.shape, in.shape + in.rank, out.shape.begin());
    for (uint32_t i = 0; i < in.rank; i++) { // one that is never taken may be negative
        out.strides[i] = std::max<int64_t>(in.strides[i], 0);
    }
    // An empty view may start at the end of the tensor, where no binding can.
    const bool is_empty = std::find(in.shape, in.shape + in.rank, 0) != in.shape + in.rank;
    const uint64_t start = is_empty ? 0 : uint64_t(in.offset) * size;
    out.base = start - start % device.binding_alignment();
    out.offset = int64_t((start - out.base) / size);
    return out;
}

Use use_of(Device &device, const Array &array, kpx_access access) {
    uint64_t bytes = (uint64_t(array.last() + 1) * array.element_size() + 3) & ~uint64_t(3);
    bytes = std::min(bytes, array.buffer->capacity() - array.base);
    if (bytes > device.limits().maxStorageBufferRange) {
        throw Error(KPX_TOO_LARGE,
                    formatted("a view spans {} bytes, beyond this device's limit of {}", bytes,
                              device.limits().maxStorageBufferRange),
                    bytes, device.limits().maxStorageBufferRange);
    }
    return {array.buffer->handle(), array.buffer->offset() + array.base, bytes, access, array.buffer,
            array.buffer.get()};
}

void check_grid(const Device &device, Grid grid) {
    const uint32_t *most = device.traits().max_workgroup_count;
    if (grid.x > most[0] || grid.y > most[1] || grid.z > most[2]) {
        fail(KPX_INVALID, "{} x {} x {} workgroups; this device launches at most {} x {} x {}", grid.x, grid.y, grid.z,
             most[0], most[1], most[2]);
    }
}

} // namespace kpx
