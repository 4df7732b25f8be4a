// What the attention kernels share: which keys a query sees, and their bias.
// Scores are in units of log2, so that exp2 can be used.
//
// Before the include: bindings mask (MASK_KIND 1: bool, 2: floats) and lengths,
// the push constants p.
#ifndef ATTENTION_GLSL
#define ATTENTION_GLSL

#include "log2_e.glsl"

const float LOWEST = -3.4e38; // stands for a missing score; finite, so that differences are finite
const float LEAST_BIAS = -3.3e38; // of a key that is not hidden: above LOWEST, so that the two differ

// The number of keys that exist when the kernel runs.
uint key_length() {
    return HAS_LENGTH != 0 ? uint(clamp(lengths[p.length_offset], 0, int(p.keys))) : p.keys;
}

// One past the last key that query i may see.
uint key_end(uint length, uint i) {
    return p.causal != 0 ? uint(clamp(int(length) - int(p.queries) + int(i) + 1, 0, int(length))) : length;
}

// The mask's row of a query.
uint mask_row(uint batch, uint head, uint i) {
    return p.mask_offset + batch * p.mask_strides[0] + head * p.mask_strides[1] + i * p.mask_strides[2];
}

// The number to add to the score of a key; LOWEST if the query must not see it.
float key_bias(uint row, uint key) {
    if (MASK_KIND == 0) {
        return 0.0;
    }
    uint at = row + key * p.mask_strides[3];
    if (MASK_KIND == 1) {
        return mask_bits(at) != 0 ? 0.0 : LOWEST;
    }
    float bias = mask_load(at);
    if (floatBitsToUint(bias) == 0xff800000u) { // only -Inf hides a key; a NaN is passed on
        return LOWEST;
    }
    bool is_number = (floatBitsToUint(bias) & 0x7fffffffu) <= 0x7f800000u; // compilers may forget NaN in comparisons
    bias *= LOG2_E;
    return is_number && bias < LEAST_BIAS ? LEAST_BIAS : bias;
}

#endif
