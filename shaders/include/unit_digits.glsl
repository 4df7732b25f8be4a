// The digits of a unit's integers (unit_integers.glsl) as bytes, for products of bytes: from -128 to 127, the lowest
// first. Four adjacent lanes of a subgroup handle a unit, eight columns each.
//
// Before the include: projection_sums.glsl.
#ifndef UNIT_DIGITS_GLSL
#define UNIT_DIGITS_GLSL

#include "unit_integers.glsl"

struct UnitDigits {
    uvec2 digits[3]; // of the lane's eight columns
    // Of the unit: the number that the integers are multiples of, the sum, and the sum of squares before the gain.
    float multiple, sum, square;
};

// a and b: the lane's columns; with_gain: whether they are multiplied by the gain; even_first: whether the even ones of
// eight columns come first, like the codes of a masked word.
UnitDigits unit_digits(vec4 a, vec4 b, bool with_gain, vec4 gain_a, vec4 gain_b, bool even_first) {
    UnitDigits unit;
    unit.square = squares_of_eight(a, b);
    if (with_gain) {
        a = gained(a, gain_a);
        b = gained(b, gain_b);
    }
    uint exponent = unit_exponent(a, b);
    // With 128 added to each digit, none is negative, and they are bytes.
    uvec4 low = uvec4(integers(a, exponent)) + 0x808080u, high = uvec4(integers(b, exponent)) + 0x808080u;
    uvec4 first_four = even_first ? uvec4(low.xz, high.xz) : low;
    uvec4 last_four = even_first ? uvec4(low.yw, high.yw) : high;
    uvec3 first_digits = bytes_of(first_four) ^ 0x80808080u, last_digits = bytes_of(last_four) ^ 0x80808080u;
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        unit.digits[digit] = uvec2(first_digits[digit], last_digits[digit]);
    }
    unit.multiple = unit_multiple(exponent);
    unit.sum = sum_of_eight(a, b);
    [[unroll]] for (uint bit = 1; bit < 4; bit *= 2) {
        unit.sum += subgroupShuffleXor(unit.sum, bit);
        unit.square += subgroupShuffleXor(unit.square, bit);
    }
    return unit;
}

#endif
