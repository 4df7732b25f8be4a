// The small floats of the quantization modes without biases, as the Open Compute
// Project's microscaling formats define them: E2M1 (4 bits), E4M3 (8 bits; no
// infinities, magnitude 127 is NaN), and E8M0 (a power of two, from 2^-127; 255 is
// read as infinity, as MLX does). Arguments and results that are bits are those of
// a float32, so that subnormal numbers survive.
#ifndef MINIFLOAT_GLSL
#define MINIFLOAT_GLSL

// Magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; the sign is bit 3.
float e2m1_to_float(uint code) {
    uint m = code & 7u;
    uint bits = m < 2u ? m * 0x3f000000u : (((m >> 1) + 126u) << 23) | ((m & 1u) << 22);
    return uintBitsToFloat(bits | ((code & 8u) << 28));
}

float e4m3_to_float(uint code) {
    uint m = code & 127u;
    bool subnormal = m < 8u; // m * 2^-9, which added to 2^-6 has m as its mantissa
    float v = uintBitsToFloat((m << 20) + (subnormal ? 0x3c800000u : 0x3c000000u)) - (subnormal ? 0.015625 : 0.0);
    uint bits = m == 127u ? 0x7fc00000u : floatBitsToUint(v);
    return uintBitsToFloat(bits | ((code & 128u) << 24));
}

// Rounds to nearest even; 448 or more, infinities and NaN become 448.
uint float_to_e4m3(uint bits) {
    uint sign = (bits >> 24) & 0x80u;
    uint a = bits & 0x7fffffffu;
    if (a >= 0x43e00000u) {
        return sign | 0x7eu;
    }
    if (a < 0x3c800000u) { // below 2^-6, in steps of 2^-9: those of float32 at 2^14
        precise float shifted = uintBitsToFloat(a) + 16384.0;
        return sign | (floatBitsToUint(shifted) - 0x46800000u);
    }
    return sign | ((a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20);
}

uint e8m0_bits(uint code) { return code == 0u ? 0x400000u : code << 23; }

// The scale of a group of 2^group_shift elements; one below 2^-126 may become 0.
float small_scale(uint code, uint group_shift) {
    return group_shift == 4u ? e4m3_to_float(code) : uintBitsToFloat(e8m0_bits(code));
}

// v * 2^(code - 127), exactly; v is a small float's value.
float times_e8m0(float v, uint code) {
    uint bits = floatBitsToUint(v);
    uint sign = bits & 0x80000000u;
    uint a = bits & 0x7fffffffu;
    if (a > 0x7f800000u || code == 255u) {
        return uintBitsToFloat(a > 0x7f800000u || a == 0u ? 0x7fc00000u : sign | 0x7f800000u);
    }
    if (a == 0u) {
        return v;
    }
    int e = int(a >> 23) + int(code) - 127;
    if (e > 254) {
        return uintBitsToFloat(sign | 0x7f800000u);
    }
    uint mantissa = (a & 0x7fffffu) | 0x800000u;
    uint magnitude = e > 0 ? (uint(e) << 23) | (a & 0x7fffffu) : mantissa >> uint(1 - e); // few bits, so none is lost
    return uintBitsToFloat(sign | magnitude);
}

#endif
