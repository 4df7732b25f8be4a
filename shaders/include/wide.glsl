// Unsigned 64-bit arithmetic on (low, high) words, for devices without the type.
#ifndef WIDE_GLSL
#define WIDE_GLSL

uvec2 wide_add(uvec2 a, uvec2 b) {
    uint carry;
    uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 wide_sub(uvec2 a, uvec2 b) {
    uint borrow;
    uint low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}

bool wide_less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// The low 64 bits of a product.
uvec2 wide_mul(uvec2 a, uint b) {
    uint high, low;
    umulExtended(a.x, b, high, low);
    return uvec2(low, high + a.y * b);
}

uint mul_high(uint a, uint b) {
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

// The high 64 bits of a product of two such numbers.
uvec2 wide_mul_high(uvec2 a, uvec2 b) {
    uint high, low;
    uvec2 xy, yx, yy;
    umulExtended(a.x, b.y, high, low);
    xy = uvec2(low, high);
    umulExtended(a.y, b.x, high, low);
    yx = uvec2(low, high);
    umulExtended(a.y, b.y, high, low);
    yy = uvec2(low, high);
    uvec2 middle = wide_add(uvec2(mul_high(a.x, b.x), 0u), uvec2(xy.x, 0u));
    middle = wide_add(middle, uvec2(yx.x, 0u));
    uvec2 sum = wide_add(yy, uvec2(xy.y, 0u));
    sum = wide_add(sum, uvec2(yx.y, 0u));
    return wide_add(sum, uvec2(middle.y, 0u));
}

// The smallest n with n * by >= v, for v > 0 where n has at most 24 bits.
uint wide_div_up(uvec2 v, uvec2 by) {
    uint n = 0u; // the largest with n * by < v
    for (uint bit = 1u << 23; bit != 0u; bit >>= 1) {
        if (wide_less(wide_mul(by, n | bit), v)) {
            n |= bit;
        }
    }
    return n + 1u;
}

#endif
