// Division of float32 as IEEE 754 defines it, by integers: a device's own may be
// off by some units in the last place, and may lose subnormal numbers. It is for
// results that must have the same bits everywhere.
#ifndef DIVIDE_GLSL
#define DIVIDE_GLSL

#define BITS_INF 0x7f800000u
#define BITS_NAN 0x7fc00000u

// A magnitude that is neither zero nor infinite, as mantissa (its bit 23 set) and exponent.
uint divide_normal(uint a, out int exponent) {
    exponent = int(a >> 23);
    uint m = a & 0x7fffffu;
    if (exponent > 0) {
        return m | 0x800000u;
    }
    int shift = 23 - findMSB(m);
    exponent = 1 - shift;
    return m << shift;
}

// The first 25 bits of a / b, and whether anything remains; b/2^23 and a/b are in [1, 2). The device's own division is
// the first estimate; the remainder, which is then small, corrects it.
uint divide_mantissas(uint a, uint b, out bool rest) {
    uint q = uint(float(a) / float(b) * 16777216.0);
    int left = int((a << 24) - q * b); // of a * 2^24, modulo 2^32
    while (left < 0) {
        left += int(b);
        q--;
    }
    while (left >= int(b)) {
        left -= int(b);
        q++;
    }
    rest = left != 0;
    return q;
}

// The bits of a / b, rounded to nearest even.
uint divide_bits(uint a, uint b) {
    uint sign = (a ^ b) & 0x80000000u;
    a &= 0x7fffffffu;
    b &= 0x7fffffffu;
    if (a > BITS_INF || b > BITS_INF || (a == b && (a == 0u || a == BITS_INF))) {
        return BITS_NAN;
    }
    if (a == BITS_INF || b == 0u) {
        return sign | BITS_INF;
    }
    if (a == 0u || b == BITS_INF) {
        return sign;
    }
    int ea, eb;
    uint ma = divide_normal(a, ea), mb = divide_normal(b, eb);
    int e = ea - eb + 127;
    if (ma < mb) {
        ma <<= 1;
        e--;
    }
    if (e > 254) {
        return sign | BITS_INF;
    }
    bool rest;
    uint q = divide_mantissas(ma, mb, rest);
    uint shift = e > 0 ? 1u : uint(min(2 - e, 26)); // subnormal: fewer bits are kept
    uint kept = q >> shift;
    uint cut = q & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    kept += uint(cut > tie || (cut == tie && (rest || (kept & 1u) == 1u)));
    return sign | ((e > 0 ? uint(e - 1) << 23 : 0u) + kept); // a carry goes on into the exponent
}

#endif
