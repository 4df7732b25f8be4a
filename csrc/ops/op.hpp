// What an op's lowering sees. One function per op, in csrc/ops/<op>.cpp, looks
// at dtypes, layouts and the device, and either appends dispatches or throws
// the reason why it cannot: one function decides both whether a call is
// supported and which kernel runs it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "abi/error.hpp"
#include "abi/kpx.h"
#include "ops/array.hpp"
#include "types.h"

namespace kpx {

class Device;
class Program;

// Throws KPX_UNSUPPORTED: the call is valid, but this device or these kernels do not support it. The op then runs on
// the CPU; nothing else makes it do so.
template <typename... Args> [[noreturn]] void unsupported(fmt::format_string<Args...> pattern, Args &&...args) {
    fail(KPX_UNSUPPORTED, pattern, std::forward<Args>(args)...);
}

// Throws KPX_INVALID: the call is wrong on every device, because operands do not fit each other or a kind does not
// exist. Go has checked all of that before, so it is a bug of this library.
template <typename... Args> [[noreturn]] void invalid(fmt::format_string<Args...> pattern, Args &&...args) {
    fail(KPX_INVALID, pattern, std::forward<Args>(args)...);
}

struct Binding {
    const Array &array; // bound from its base to its last element: kernels add their own element offset
    kpx_access access;
    // Read: the kernel can wait for it by itself, if it is a result of an earlier dispatch. Written: others can wait
    // for it. The kernel's last specialization constant is then OVERLAP (overlap.glsl).
    bool overlaps = false;
};

// The first member of a kernel's Bindings, which makes a list without names an error.
struct ByName {};

struct Grid {
    uint32_t x = 1, y = 1, z = 1;
};

constexpr uint32_t kUsualSharedBytes = 32 << 10; // of shared memory: nearly every device has that, a few only half

// Limits and features that a lowering may ask about.
struct DeviceTraits {
    uint32_t subgroup_size;
    uint32_t max_workgroup_invocations;
    uint32_t max_workgroup_count[3];
    uint32_t max_shared_bytes;
    uint64_t max_tensor_bytes;
    uint32_t compute_units; // that run workgroups in parallel; a guess if the driver does not tell
    bool storage16;         // 16-bit and 8-bit elements in storage buffers
    bool float16;           // arithmetic
    bool subgroup_arithmetic;
    bool dot8;               // dot products of four bytes are fast
    bool byte_matrices_of_8; // matrices of bytes may also be 16 by 32 by 8 (projection_coopmat.comp)
    bool fragments;          // lanes may make matrices in registers (fragment_check.hpp)
    bool fragment_codes;     // and codes times scales are exact there (fragment_codes.glsl)
    bool batch_variant;      // and the device was opened for products that differ by rows (kpx.h)
    bool overlaps;           // the device was opened for dispatches that overlap, and passed the check for that
    bool is_cpu;
    bool small_code; // a CPU driver with narrow vectors, whose compiler takes minutes for loops that are unrolled on
                     // GPUs
    bool as_gpu;     // for tests on CPU drivers: use the kernels and fused ops of GPUs even if they do not pay
};

// Collects the dispatches of one op.
class Lowering {
  public:
    virtual ~Lowering() = default;
    virtual const DeviceTraits &device() const = 0;

    // Uninitialised contiguous memory that lives until the op is done. Throws KPX_UNSUPPORTED if the device has no
    // tensors of that size.
    virtual Array scratch(uint32_t dtype, std::initializer_list<int64_t> shape) = 0;

    // n uint32 that belong to this op however often it runs. They start as
    // zero, and each run must leave them zero.
    virtual Array counters(int64_t n) = 0;

    // One dispatch of the best built variant of a kernel that this device can run; throws KPX_UNSUPPORTED if there is
    // none. spec: its specialization constants, the kernel's struct in gen_kernels.hpp, which also names the kernel
    // unless several share it, and the bindings: {.x = {x, KPX_READ}, …}, all of them, in order. An absent array must
    // not be bound: bind any present one in its place.
    template <typename S, typename P>
    void dispatch(const S &spec, const typename S::Bindings &bindings, const P &params, Grid grid) {
        dispatch(S::kKernel, spec, bindings, params, grid);
    }
    template <typename S, typename P>
    void dispatch(const char *kernel, const S &spec, const typename S::Bindings &bindings, const P &params, Grid grid) {
        static_assert(std::is_trivially_copyable<P>::value && sizeof(P) <= 128, "push constants");
        static_assert(std::is_trivially_copyable<S>::value && sizeof(S) == sizeof(uint32_t) * S::kCount);
        static_assert(sizeof bindings % sizeof(Binding) == 0);
        if constexpr (requires { spec.overlap; }) {
            static_assert(offsetof(S, overlap) == sizeof(S) - sizeof(uint32_t), "OVERLAP is the last constant");
        } else if (any_overlaps(reinterpret_cast<const Binding *>(&bindings), sizeof bindings / sizeof(Binding))) {
            fail(KPX_INTERNAL, "kernel {} does not overlap", kernel);
        }
        dispatch_bytes(kernel, reinterpret_cast<const uint32_t *>(&spec), S::kCount,
                       reinterpret_cast<const Binding *>(&bindings), sizeof bindings / sizeof(Binding), &params,
                       sizeof(P), grid);
    }

    // Whether a variant of the kernel family was built and runs on this device.
    virtual bool has_kernel(const char *kernel) const = 0;

    // Whether the variant that dispatch would run has the word in its name (shaders/README.md).
    virtual bool runs_variant(const char *kernel, std::string_view word) const = 0;

    static bool any_overlaps(const Binding *bindings, size_t n) {
        return std::any_of(bindings, bindings + n, [](const Binding &one) { return one.overlaps; });
    }

  protected:
    virtual void dispatch_bytes(const char *kernel, const uint32_t *spec, uint32_t constants, const Binding *bindings,
                                size_t bound, const void *params, uint32_t size, Grid grid) = 0;
};

// An op call before op_table.cpp converts it to the op's own class, which names the operands.
struct OpCall {
    const Array *arrays;
    uint32_t n;
    const void *params;
    uint32_t size;
};

} // namespace kpx
