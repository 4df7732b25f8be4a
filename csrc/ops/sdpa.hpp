// What the forms of sdpa share: sdpa.cpp has those without cooperative matrices, sdpa_matrix.cpp those with them.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

constexpr uint32_t kTile = 64; // rows of a workgroup of sdpa_tiled and sdpa_coopmat, TILE there

// A call in the form that its lowerings use.
struct Attention {
    Array q, k, v, mask, length, out;
    SDPAParams p{};
};

// Rows of q for a key head.
inline int64_t head_rows(const Attention &a) {
    return int64_t(a.p.queries) * a.p.group;
}

// The specialization constant of that name.
inline uint32_t mask_kind(const Attention &a) {
    return !a.mask ? 0 : a.mask.dtype == DT_BOOL ? 1 : 2;
}

constexpr int64_t kFewRows = 16;            // of a key head, from which tiles may be worth it
constexpr int64_t kTiledGroups = 32;        // fewer workgroups would leave most of a device idle
constexpr int64_t kMostTiledKeys = 1 << 21; // more would keep a GPU in one workgroup for too long
constexpr int64_t kKeysOfRange = 256;       // the fewest that are worth a workgroup of their own
constexpr int64_t kMostRanges = 64;

// Where `ranges` workgroups that share the keys of a row store their results, for combine_ranges. A single one stores
// in out.
Array range_results(Lowering &lowering, const Attention &a, int64_t ranges);
void combine_ranges(Lowering &lowering, const Attention &a, const Array &results, int64_t ranges);

// Whether sdpa_coopmat or sdpa_fragments can run, and is worth it.
bool prefers_matrices(const Lowering &lowering, const Attention &a);
void dispatch_matrices(Lowering &lowering, const Attention &a);

} // namespace kpx
