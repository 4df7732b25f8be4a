// What an op's lowering sees. One function per op, in csrc/ops/<op>.cpp, looks
// at dtypes, layouts and the device, and either appends dispatches or answers
// why it cannot; "is it supported" and "which kernel" are one function.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "abi/kpx.h"
#include "types.h"

namespace kpx {

class Buffer;
class Device;
class Program;

// A view of device storage, as the C ABI's kpx_array but owning its buffer.
struct Array {
    std::shared_ptr<Buffer> buffer;
    uint32_t dtype = 0;
    uint32_t rank = 0;
    uint64_t base = 0;  // bytes into the buffer where a binding of this view starts, aligned as the device asks
    int64_t offset = 0; // elements from base; strides count elements too
    std::array<int64_t, KPX_MAX_RANK> shape{};
    std::array<int64_t, KPX_MAX_RANK> strides{};

    explicit operator bool() const { return buffer != nullptr; }
    int64_t size() const;
    int64_t dim(int axis) const { return shape[axis < 0 ? axis + int(rank) : axis]; }
    int64_t stride(int axis) const { return strides[axis < 0 ? axis + int(rank) : axis]; }
    bool contiguous() const;
    uint32_t element_size() const;
};

// The answer of a lowering: supported, or why not.
struct Support {
    std::string why;
    bool ok() const { return why.empty(); }
};
inline Support supported() {
    return {};
}
Support unsupported(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct Binding {
    const Array &array; // bound from its base to its last element: kernels add their own element offset
    kpx_access access;
};

struct Grid {
    uint32_t x = 1, y = 1, z = 1;
};

// Limits and features that a lowering may ask about.
struct DeviceTraits {
    uint32_t subgroup_size;
    uint32_t max_workgroup_invocations;
    uint32_t max_workgroup_count[3];
    uint32_t max_shared_bytes;
    bool storage16; // 16-bit and 8-bit elements in storage buffers
    bool float16;   // arithmetic
    bool subgroup_arithmetic;
    bool dot8; // products of four bytes at once are fast
    bool is_cpu;
};

// Collects the dispatches of one op. A lowering that answers "unsupported"
// leaves nothing behind.
class Lowering {
  public:
    virtual ~Lowering() = default;
    virtual const DeviceTraits &device() const = 0;

    // Uninitialised contiguous memory that lives until the op is done.
    virtual Array scratch(uint32_t dtype, std::initializer_list<int64_t> shape) = 0;

    // n uint32 that belong to this op however often it runs. They are zero at
    // first, and each run must leave them zero.
    virtual Array counters(int64_t n) = 0;

    // One dispatch of the best built variant of a kernel family that this
    // device can run (see shaders/manifest.txt). spec[i] is the kernel's
    // specialization constant i. Bindings are set 0, binding 0, 1, …; an absent
    // array must not be bound: bind any present one in its place.
    template <typename P>
    void dispatch(const char *kernel, std::initializer_list<uint32_t> spec, std::initializer_list<Binding> bindings,
                  const P &params, Grid grid) {
        static_assert(std::is_trivially_copyable<P>::value && sizeof(P) <= 128, "push constants");
        dispatch_bytes(kernel, spec, bindings, &params, sizeof(P), grid);
    }

    // Whether a variant of the kernel family was built and runs on this device.
    virtual bool has_kernel(const char *kernel) const = 0;

  protected:
    virtual void dispatch_bytes(const char *kernel, std::initializer_list<uint32_t> spec,
                                std::initializer_list<Binding> bindings, const void *params, uint32_t size,
                                Grid grid) = 0;
};

// The operands of one op call, in the order that csrc/ops/<op>.cpp documents.
struct OpCall {
    const Array *arrays;
    uint32_t n;
    const void *params;
    uint32_t size;

    // The op's parameter struct, or nullptr if the caller's size differs.
    template <typename P> const P *as() const { return size == sizeof(P) ? static_cast<const P *>(params) : nullptr; }
};

using LowerFn = Support (*)(Lowering &, const OpCall &);

// The op table: csrc/ops/ops.def has one row per op.
#define KPX_OP(name) Support lower_##name(Lowering &lowering, const OpCall &call);
#include "ops/ops.def"
#undef KPX_OP

} // namespace kpx
