// sdpa on cooperative matrices.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

constexpr uint32_t kTile = 64; // rows of a workgroup of sdpa_tiled and sdpa_coopmat, TILE there

// A call in the form that its lowerings use.
struct Attention {
    Array q, k, v, mask, length, out;
    SDPAParams p{};
};

// The specialization constant of that name.
inline uint32_t mask_kind(const Attention &a) {
    return !a.mask ? 0 : a.mask.dtype == DT_BOOL ? 1 : 2;
}

// Whether sdpa_coopmat can run instead of sdpa_tiled.
bool prefers_matrices(const Lowering &lowering, const Attention &a);
// groups: of sdpa_tiled.
void dispatch_matrices(Lowering &lowering, const Attention &a, int64_t groups);

} // namespace kpx
