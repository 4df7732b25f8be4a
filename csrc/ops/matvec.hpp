// How the kernels that multiply a few rows of x with each row of a matrix
// (quantized_matmul_vec, matmul_vec) are launched.
#pragma once

#include <algorithm>

#include "ops/rounds.hpp"

namespace kpx {

struct Matvec {
    static constexpr int64_t kMostRows = 8;         // of x in one workgroup
    static constexpr int64_t kMostLength = 1 << 24; // of a row
    static constexpr int64_t kSharedFloats = 7168;  // 28 of 32 KiB of shared memory,
    static constexpr int64_t kFewFloats = 3072;     // and 12 of the 16 KiB that every device has
    static constexpr int64_t kGroups = 512;         // enough workgroups; with more work, each takes more rows

    // Whether blocks of rows of x use the device better than that many tiles of
    // tile.glsl, as they do on a GPU if the tiles would leave most of it idle.
    static bool beats_tiles(const DeviceTraits &device, int64_t x_rows, int64_t tiles) {
        return device.is_cpu ? x_rows <= 2 * kMostRows : x_rows <= 32 * kMostRows && tiles < 96;
    }

    uint32_t threads = 0;
    uint32_t lanes = 0; // of a slot that is not a subgroup
    uint32_t rows = 1;  // of x in one workgroup
    uint32_t chunk = 0; // elements of a row of x in shared memory at a time
    uint32_t rows_per_group = 0;
    uint32_t groups = 0;
    uint32_t row_blocks = 0;
    int64_t rounds = 0; // of a thread's loops (rounds.hpp)
};

// The rounds of such a kernel's loops for 32 elements of a row of the matrix, and after a row for each of x. Those by
// which slots without subgroups add up are among the latter.
struct MatvecRounds {
    int64_t unit = 8, result = 33;
};

// x_rows rows of length k, and a matrix of n rows.
inline Matvec plan_matvec(const DeviceTraits &device, int64_t x_rows, int64_t k, int64_t n,
                          int64_t most_rows = Matvec::kMostRows, const MatvecRounds &of = {}) {
    Matvec v;
    v.lanes = device.subgroup_arithmetic ? device.subgroup_size : device.is_cpu ? 8 : 32;
    uint32_t slots = n >= 1024 || device.is_cpu ? 8 : n >= 512 ? 4 : 2;
    while (slots > 1 && slots * v.lanes > std::min(device.max_workgroup_invocations, 256u)) {
        slots /= 2;
    }
    v.threads = slots * v.lanes;
    v.row_blocks = uint32_t((x_rows + most_rows - 1) / most_rows);
    // Rounded, so that not every number and length needs its own pipeline.
    while (v.rows * v.row_blocks < x_rows) {
        v.rows *= 2;
    }
    const int64_t step = k <= 1024 ? 256 : 1024;
    const int64_t floats = device.max_shared_bytes < kUsualSharedBytes ? Matvec::kFewFloats : Matvec::kSharedFloats;
    const int64_t most = floats / v.rows / 256 * 256;
    v.chunk = device.small_code ? uint32_t(most)
                                : uint32_t(std::max<int64_t>(256, std::min((k + step - 1) / step * step, most)));
    // Rows of x are staged chunk by chunk (staged_rows.glsl).
    const int64_t of_chunk = 4 + v.rows * (2 + v.chunk / v.threads) + v.chunk / 32 * of.unit / v.lanes;
    const int64_t of_turn = 2 + (k + v.chunk - 1) / v.chunk * of_chunk + v.rows * of.result;
    int64_t turns = (n + slots * Matvec::kGroups - 1) / (slots * Matvec::kGroups);
    if (device.is_cpu) {
        turns = std::clamp<int64_t>(kMostRounds / of_turn, 1, turns);
    }
    v.rounds = turns * of_turn;
    v.rows_per_group = uint32_t(turns * slots);
    v.groups = uint32_t((n + v.rows_per_group - 1) / v.rows_per_group);
    return v;
}

} // namespace kpx
