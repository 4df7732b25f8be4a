// The shape of the workgroups of tile.glsl.
#pragma once

#include "ops/lowering_util.hpp"
#include "ops/rounds.hpp"

namespace kpx {

struct Tiles {
    uint32_t threads_m = 16, threads_n = 16;
    bool large = false; // kernels built with TILE_QUADS=2: twice as many results a side for each thread

    uint32_t threads() const { return threads_m * threads_n; }
    int64_t count(int64_t m, int64_t n) const {
        const int64_t tile_m = int64_t(threads_m) * (large ? 8 : 4), tile_n = int64_t(threads_n) * (large ? 8 : 4);
        return ((m + tile_m - 1) / tile_m) * ((n + tile_n - 1) / tile_n);
    }
    // Rounds of a thread's loops (rounds.hpp) for sums of k products, where it fills so many elements of the second
    // tile at once: for each 32 of them it fills both tiles and multiplies them, four at a time. Not for large tiles,
    // which CPU drivers do not get.
    int64_t rounds(int64_t k, uint32_t filled) const {
        const int64_t fill_a = 128 / threads_n + 1, fill_b = 128 / threads_m / filled + 1, multiply = 32 / 4 + 1;
        return (k + 31) / 32 * (1 + fill_a + fill_b + multiply);
    }
};

// Tiles for a product of m by n results, batches times.
inline Tiles plan_tiles(const DeviceTraits &device, int64_t m, int64_t n, int64_t batches) {
    Tiles t;
    if (m <= 16) {
        t.threads_m = 4;
    } else if (device.max_workgroup_invocations < 256 || device.max_shared_bytes < kUsualSharedBytes) {
        t.threads_m = 8;
    }
    Tiles large;
    large.large = true;
    // Larger tiles read less, but pay only if there are enough of them to keep the device busy.
    if (t.threads_m == 16 && !device.is_cpu && large.count(m, n) * batches >= 128) {
        return large;
    }
    return t;
}

} // namespace kpx
