// 32-bit integer arithmetic on bits, defined for every operand: results wrap.
// GLSL's own / and % are undefined for negative numbers, zero divisors and
// overflow.
#ifndef INTEGER_GLSL
#define INTEGER_GLSL

bool sign_of(uint v, bool is_signed) { return is_signed && (v >> 31) != 0u; }
uint absolute(uint v, bool is_signed) { return sign_of(v, is_signed) ? 0u - v : v; }

// Rounded down; 0 for a zero divisor.
uint integer_div(uint u, uint v, bool is_signed) {
    if (v == 0u) {
        return 0u;
    }
    uint a = absolute(u, is_signed);
    uint b = absolute(v, is_signed);
    uint q = a / b;
    if (sign_of(u, is_signed) == sign_of(v, is_signed)) {
        return q;
    }
    return q * b == a ? 0u - q : 0u - q - 1u;
}

// With the divisor's sign; 0 for a zero divisor.
uint integer_mod(uint u, uint v, bool is_signed) {
    if (v == 0u) {
        return 0u;
    }
    uint r = absolute(u, is_signed) % absolute(v, is_signed);
    r = sign_of(u, is_signed) ? 0u - r : r;
    return r != 0u && sign_of(u, is_signed) != sign_of(v, is_signed) ? r + v : r;
}

// u to the power of v, by repeated squaring; 0 for a negative exponent.
uint integer_pow(uint u, uint v, bool is_signed) {
    if (sign_of(v, is_signed)) {
        return 0u;
    }
    uint result = 1u;
    for (; v != 0u; v >>= 1) {
        if ((v & 1u) != 0u) {
            result *= u;
        }
        u *= u;
    }
    return result;
}

// Only the lowest five bits of the shift count.
uint integer_shift_right(uint u, uint v, bool is_signed) {
    v &= 31u;
    return is_signed ? uint(int(u) >> v) : u >> v;
}

#endif
