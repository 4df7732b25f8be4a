// The shape of the workgroups of matrix_tiles.glsl.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

struct MatrixTiles {
    uint32_t depth = 32;               // columns of both operands in shared memory
    uint32_t rows = 2, columns = 2;    // matrices of 16 by 16 for each subgroup
    uint32_t waves_m = 4, waves_n = 4; // subgroups
    uint32_t lanes = 32;               // of a subgroup

    // For a product of m rows whose operands have that many float16 parts; fits() tells whether the device can run
    // it. A kernel that decodes its second operand needs more subgroups to hide the decoding; otherwise larger blocks
    // read less shared memory.
    static MatrixTiles plan(const DeviceTraits &device, int64_t m, uint32_t a_parts, uint32_t b_parts, bool decodes) {
        MatrixTiles t;
        t.lanes = device.subgroup_size;
        t.depth = a_parts + b_parts > 2 ? 32 : 64;
        if (!decodes) {
            t.columns = 4;
            t.waves_n = 2;
        }
        while (t.waves_m > 1 && (m <= t.tile_m() / 2 || !t.fits(device, a_parts, b_parts))) {
            t.waves_m /= 2;
        }
        return t;
    }

    uint32_t threads() const { return waves_m * waves_n * lanes; }
    int64_t tile_m() const { return int64_t(waves_m) * rows * 16; }
    int64_t tile_n() const { return int64_t(waves_n) * columns * 16; }
    int64_t count(int64_t m, int64_t n) const {
        return (m + tile_m() - 1) / tile_m() * ((n + tile_n() - 1) / tile_n());
    }
    // k, padded to whole tiles.
    int64_t padded(int64_t k) const { return (k + depth - 1) / depth * depth; }

    uint32_t shared_bytes(uint32_t a_parts, uint32_t b_parts) const {
        const int64_t operands = (a_parts * tile_m() + b_parts * tile_n()) * (depth / 8 + 1) * 16;
        const int64_t results = int64_t(waves_m) * waves_n * 16 * (columns * 4 + 1) * 16;
        return uint32_t(std::max(operands, results));
    }
    bool fits(const DeviceTraits &device, uint32_t a_parts, uint32_t b_parts) const {
        return threads() <= device.max_workgroup_invocations &&
               shared_bytes(a_parts, b_parts) <= device.max_shared_bytes;
    }

    // The number of workgroups that share the columns of a product. It depends on the shape alone, and assumes a
    // device with some 132 workgroups at a time, 1.25 µs for a step, and 3 µs plus a pass through memory for
    // adding up.
    uint32_t splits(int64_t m, int64_t n, int64_t k) const {
        const int64_t tiles = count(m, n), steps = k / depth;
        uint32_t best = 1;
        double least = 0;
        for (uint32_t s = 1; s <= 8 && (s == 1 || steps / s >= 8); s++) {
            const double turns = double((tiles * s + 131) / 132) * double((steps + s - 1) / s);
            const double us = turns * 1.25 + (s > 1 ? 3 + double(s) * double(m * n) * 8 / 3e6 : 0);
            if (s == 1 || us < least) {
                least = us;
                best = s;
            }
        }
        return best;
    }
};

} // namespace kpx
