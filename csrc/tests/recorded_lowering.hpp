// A device with every kernel, whatever hardware the machine has: it only records what lowerings dispatch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gen_kernels.hpp"
#include "ops/op.hpp"

struct RecordedDispatch {
    std::string kernel;
    std::vector<uint32_t> spec;
    kpx::Grid grid;
};

class RecordedLowering : public kpx::Lowering {
  public:
    kpx::DeviceTraits traits{.subgroup_size = 32,
                             .max_workgroup_invocations = 1024,
                             .max_workgroup_count = {65535, 65535, 65535},
                             .max_shared_bytes = 49152,
                             .max_tensor_bytes = 1u << 30,
                             .compute_units = 100,
                             .storage16 = true,
                             .float16 = true,
                             .subgroup_arithmetic = true,
                             .dot8 = true,
                             .byte_matrices_of_8 = true,
                             .fragments = true,
                             .fragment_codes = true,
                             .batch_variant = false,
                             .overlaps = false,
                             .is_cpu = false,
                             .small_code = false,
                             .as_gpu = false};
    std::set<std::string_view> words = {"narrow", "subgroup", "dot8"}; // of every variant
    std::vector<RecordedDispatch> dispatches;
    uint64_t scratch_bytes = 0;

    const kpx::DeviceTraits &device() const override { return traits; }
    kpx::Array counters(int64_t n) override { return array(DT_UINT32, {n}); }
    bool has_kernel(const char *) const override { return true; }
    bool runs_variant(const char *, std::string_view word) const override { return words.count(word) != 0; }
    kpx::Array scratch(uint32_t dtype, std::initializer_list<int64_t> shape) override {
        const kpx::Array made = array(dtype, shape);
        scratch_bytes += uint64_t(made.size()) * made.element_size();
        return made;
    }

    // A contiguous array, whose memory is never accessed.
    static kpx::Array array(uint32_t dtype, std::initializer_list<int64_t> shape) {
        kpx::Array made;
        made.buffer = {std::shared_ptr<void>(), reinterpret_cast<kpx::Buffer *>(alignof(std::max_align_t))};
        made.dtype = dtype;
        made.rank = uint32_t(shape.size());
        std::copy(shape.begin(), shape.end(), made.shape.begin());
        made.pack();
        return made;
    }

  protected:
    void dispatch_bytes(const char *kernel, const uint32_t *spec, uint32_t count, const kpx::Binding *, size_t,
                        const void *, uint32_t, kpx::Grid grid) override {
        dispatches.push_back({kernel, std::vector<uint32_t>(spec, spec + count), grid});
    }
};
