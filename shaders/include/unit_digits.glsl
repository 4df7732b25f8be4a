// The digits of integers (unit_integers.glsl) as bytes, for products of bytes: from -128 to 127, the lowest first. Four
// adjacent lanes of a subgroup handle a unit, eight columns each, and 4 * SPAN a span.
//
// Before the include: projection_sums.glsl; SPAN, and MIDDLE of code_bytes.glsl.
#ifndef UNIT_DIGITS_GLSL
#define UNIT_DIGITS_GLSL

#include "unit_integers.glsl"

struct UnitDigits {
    uvec2 digits[3]; // of the lane's eight columns
    float multiple; // the number that the span's integers are multiples of
    float sum;      // of the span
    int start;      // what sums of the span's products begin with
    float square;   // the unit's sum of squares, before the gain
};

// The lane's digits; even_first: whether the even ones of eight columns come first, like the codes of a masked word.
uvec2[3] digits_of(ivec4 a, ivec4 b, bool even_first) {
    // With 128 added to each digit, none is negative, and they are bytes.
    uvec4 low = uvec4(a) + 0x808080u, high = uvec4(b) + 0x808080u;
    uvec4 first_four = even_first ? uvec4(low.xz, high.xz) : low;
    uvec4 last_four = even_first ? uvec4(low.yw, high.yw) : high;
    uvec3 first_digits = bytes_of(first_four) ^ 0x80808080u, last_digits = bytes_of(last_four) ^ 0x80808080u;
    uvec2 digits[3];
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        digits[digit] = uvec2(first_digits[digit], last_digits[digit]);
    }
    return digits;
}

// a and b: the lane's columns; with_gain: whether they are multiplied by the gain.
UnitDigits unit_digits(vec4 a, vec4 b, bool with_gain, vec4 gain_a, vec4 gain_b, bool even_first) {
    UnitDigits unit;
    unit.square = sum_of_lanes(squares_of_eight(a, b), 4);
    if (with_gain) {
        a = gained(a, gain_a);
        b = gained(b, gain_b);
    }
    uint exponent = span_exponent(largest_of_lanes(largest_of_eight(a, b), 4 * SPAN));
    ivec4 of_a = integers(a, exponent), of_b = integers(b, exponent);
    unit.digits = digits_of(of_a, of_b, even_first);
    unit.multiple = span_multiple(exponent);
    unit.sum = sum_of_lanes(sum_of_eight(a, b), 4 * SPAN);
    unit.start = start_of(sum_of_lanes(sum_of_integers(of_a + of_b), 4 * SPAN));
    return unit;
}

#endif
