// Frequencies of rotary position embedding, for shaders/include/rotary.glsl.
#pragma once

#include <cmath>
#include <cstring>

#include "ops/lowering_util.hpp"

namespace kpx {

// The exponent of 2 that each pair of a head's dims adds, -2 * log2(base) / dims,
// as a sum of a float of 12 significant bits, whose small multiples are exact,
// and the rest.
inline void rotary_step(float base, uint32_t dims, float &high, float &low) {
    const double step = dims > 0 ? -2.0 * std::log2(double(base)) / dims : 0.0;
    high = float(step);
    uint32_t bits;
    memcpy(&bits, &high, sizeof bits);
    bits &= 0xfffff000u;
    memcpy(&high, &bits, sizeof high);
    low = float(step - double(high));
}

} // namespace kpx
