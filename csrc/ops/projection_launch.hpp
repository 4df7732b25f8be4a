// How the projection kernel is launched.
#pragma once

#include <vector>

#include "ops/op.hpp"

namespace kpx {

// What a launch is planned for.
struct ProjectionShape {
    int64_t rows; // of all matrices that are processed side by side
    int64_t cols; // of x
    int64_t x_rows;
    uint32_t paired; // matrices that a workgroup reads at once
    uint32_t bits;   // of a code
    bool integers;   // x in the form of byte_limbs.glsl
    uint32_t span;   // units whose products are added up as integers (unit_integers.glsl)
    bool norm, arg_max;
    bool subgroup; // lanes add up by subgroup operations instead of shared memory
    bool mended;   // rows of x that are not finite may take another pass (not_finite.glsl)
};

struct ProjectionLaunch {
    uint32_t lanes;          // of a slice; it depends on the shape alone, since it determines the order of sums
    uint32_t slices;         // of a row
    uint32_t slots, abreast; // see projection.comp
    uint32_t rows, turns;
    uint32_t piece;  // columns in shared memory at a time
    uint32_t x_rows; // of a workgroup

    uint32_t threads() const { return slots * abreast * lanes; }
    uint32_t group_rows() const { return slots * turns * rows; }
};

// How projection_coopmat is launched; the fields are its constants.
struct ByteTiles {
    uint32_t lanes, abreast, slots, tiles, run, side, x_blocks;
    bool pair; // tiles of two matrices alternate

    uint32_t places() const { return abreast * slots; } // of teams with the same codes
    uint32_t threads() const { return places() * x_blocks * 32; }
    uint32_t group_rows() const { return slots * tiles * 16 / (pair ? 2 : 1); } // of each matrix
    uint32_t group_x_rows() const { return side * x_blocks; }
    uint32_t shared_bytes(uint32_t group_size) const; // of the kernel
    bool fits(const DeviceTraits &device, uint32_t group_size) const;
};

ByteTiles plan_byte_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_size);

// How projection_parts is launched; the fields are its constants.
struct PartTiles {
    uint32_t lanes; // of a slice
    uint32_t part, teams, turns, side;

    uint32_t threads() const { return teams * 32; }
    uint32_t shared_bytes(uint32_t group_size) const; // of the kernel
};

// The cheapest launch for matrices of so many tiles of 16 rows each; no teams if there is none.
PartTiles plan_part_tiles(const DeviceTraits &device, const ProjectionShape &shape, const std::vector<int64_t> &tiles,
                          uint32_t group_size);

// How projection_fragments is launched.
struct FragmentTiles {
    static constexpr uint32_t kPart = 16, kMostChunk = 4;          // units of 32 columns
    static constexpr uint32_t kTiles = 2, kPairRows = 16 * kTiles; // that a team has at a time
    static constexpr uint32_t kMostTeams = 8;
    static constexpr uint32_t kHeldChunks = 4; // whose scales a team holds at a time

    uint32_t side; // rows of x of a workgroup: 16 or 8
    uint32_t teams, turns;

    uint32_t threads() const { return teams * 32; }
    uint32_t shared_bytes(uint32_t group_size) const; // of the kernel
};

// The cheapest launch for matrices of so many tiles of 16 rows each, where others is how many workgroups have the same
// rows of them; no teams if there is none.
FragmentTiles plan_fragments(const DeviceTraits &device, uint32_t side, uint32_t group_size, int64_t others,
                             const std::vector<int64_t> &tiles);

// The number of lanes of a slice, for a row of that many units of 32 columns with such spans. It determines the order
// of sums.
uint32_t slice_lanes(const DeviceTraits &device, int64_t units, uint32_t span);

// Throws KPX_UNSUPPORTED where the device's shared memory does not hold one slice, or a CPU driver would end loops.
ProjectionLaunch plan_projection(const DeviceTraits &device, const ProjectionShape &shape);

} // namespace kpx
