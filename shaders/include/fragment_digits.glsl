// The digits of x of projection_fragments, in the order in which lanes take them, and what they are multiplied by.
//
// Before the include: part_places.glsl, and what the kernel declares of shared memory. Four neighbouring lanes of a
// matrix take 16 columns of a step. A lane's word of codes has 8 neighbouring columns: masked and shifted, codes 0 and
// 4, 1 and 5, 2 and 6, and 3 and 7 become pairs. Those of the odd ones are 16 times too large, so their digits are 16
// times smaller than the others, which are digit_factor() times what they are: float16 has room for that, and it keeps
// the multiple of the largest floats finite.
#ifndef FRAGMENT_DIGITS_GLSL
#define FRAGMENT_DIGITS_GLSL

#include "unit_integers.glsl"

const float HIGH_DIGIT = 2048.0;
float digit_factor() { return float(1u << (25 - INTEGER_BITS)); } // 8 or 16
const uint CHUNK_THREADS = 4 * CHUNK; // neighbours that make the digits of a chunk of a row
vec4 x_low, x_high, gain_low, gain_high; // under way

// With two digits, a quad has those of a step of 16 columns, the high ones first; with one, those of both steps of a
// word. The order of lanes differs, so that threads that store those of different words use different banks of shared
// memory.
uint digits_at(uint b, uint chunk, uint quad, uint lane) {
    return ((b * RUN + chunk) * DIGIT_QUADS + quad) * 32 + (lane ^ (quad / DIGITS_OF_X * 2));
}

// A lane's digits of one of the two steps of a word: in x and y the high ones, in z and w the low ones, if any.
uvec4 digits_of_step(uint b, uint chunk, uint word, uint step_) {
    uvec4 digits = work[digits_at(b, chunk, word * DIGITS_OF_X + step_ * (DIGITS_OF_X - 1), gl_SubgroupInvocationID)];
    return DIGITS_OF_X == 1 && step_ == 1 ? digits.zwxy : digits;
}

// Multiple and sum of two neighbouring rows of x.
uint factors_at(uint chunk, uint row) { return FACTORS_FROM + (chunk * SIDE + row) / 2; }

// What sums with the high digits begin with, and in the next quad those with the low ones, for two neighbouring rows of
// x: each number twice, so that one load gives all four sums of a lane, those of two rows of w.
uint starts_at(uint chunk, uint row) { return FACTORS_FROM + STARTS_AFTER + (chunk * SIDE + row) / 2 * 2; }

// Which eight columns a thread has: a row's follow each other. Threads beyond the last sixteen repeat
// what these do.
uint eight_of(uint pass) {
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    return min((pass * THREADS + thread) / 16, EIGHTS / 16 - 1) * 16 + thread % 16;
}

// In place of rows beyond the last, the last is repeated, and so are units, which make_eight replaces by zeros.
void load_eight(uint pass) {
    uint eight = eight_of(pass), row = min(block * SIDE + row_of(eight), p.x_rows - 1);
    uint column = min(part * PART + unit_of(eight), UNITS - 1) * 32 + eight % 4 * 8;
    if (NORM == 2) {
        gain_low = gain_quad(p.gain_offset + column);
        gain_high = gain_quad(p.gain_offset + column + 4);
    }
    x_low = x_quad(p.x_offset + row * COLS + column);
    x_high = x_quad(p.x_offset + row * COLS + column + 4);
}

vec4 of_11_bits(vec4 v) { return uintBitsToFloat((floatBitsToUint(v) + 0x1000u) & 0xffffe000u); }

// The two digits of each of four neighbouring columns, multiplied by factors, which are powers of two. SHIFT is
// multiplied as well, so that they are rounded as without factors. With one digit, high is the number itself.
void split_digits(vec4 v, uint exponent, vec4 factors, inout ivec4 integers_of_x, out vec4 high, out vec4 low) {
    if (DIGITS_OF_X == 1) {
        high = v * span_factor(exponent) * (factors / HIGH_DIGIT);
        low = vec4(0.0);
        return;
    }
    vec4 shift = SHIFT * factors;
    precise vec4 shifted = shifted_integers(v, exponent);
    integers_of_x += without_shift(shifted);
    precise vec4 n = fma(shifted, factors, -shift);
    precise vec4 rounded = fma(n, vec4(1.0 / HIGH_DIGIT), shift) - shift;
    precise vec4 rest = fma(rounded, vec4(-HIGH_DIGIT), n);
    high = rounded;
    low = rest;
}

uint packed(float a, float b) { return packFloat2x16(f16vec2(a, b)); }

// The digits of eight neighbouring columns, of which columns i and i + 4 are a pair: of pairs 0 to 3 the high ones, then
// the low ones, if any.
void pair_digits(vec4 a, vec4 b, uint exponent, inout ivec4 integers_of_x, out uvec4 high, out uvec4 low) {
    vec4 factors = vec2(digit_factor(), digit_factor() / 16.0).xyxy;
    vec4 high_a, low_a, high_b, low_b;
    split_digits(a, exponent, factors, integers_of_x, high_a, low_a);
    split_digits(b, exponent, factors, integers_of_x, high_b, low_b);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        high[i] = packed(high_a[i], high_b[i]);
        low[i] = packed(low_a[i], low_b[i]);
    }
}

// With infinities or NaNs, the sum is NaN, and so is the result, which projection_join computes anew without a norm.
// What digits hold is in units of 2^(exponent - 126 - INTEGER_BITS), codes are in units of 2^-24, and digits are
// digit_factor() times too large, which leaves the exponent itself. start, which sums begin with, is divided into
// digits like x.
void store_factors(uint eight, uint exponent, float sum, int start) {
    uint at = factors_at(eight / CHUNK_THREADS % RUN, row_of(eight)), column = row_of(eight) % 2 * 2;
    work[at][column] = exponent << 23;
    work[at][column + 1] = exponent == INFINITE_EXPONENT ? floatBitsToUint(make_nan()) : floatBitsToUint(sum);
    if (SPAN > 1) {
        float unit = digit_factor() / 16777216.0;
        uint starts = starts_at(eight / CHUNK_THREADS % RUN, row_of(eight)), i = row_of(eight) % 2;
        work[starts][i] = work[starts][i + 2] = floatBitsToUint(float(start >> 11) * unit);
        work[starts + 1][i] = work[starts + 1][i + 2] = floatBitsToUint(float(start & 2047) * unit);
    }
}

void make_eight(uint pass, vec4 a, vec4 b, vec4 by_a, vec4 by_b) {
    uint eight = eight_of(pass), row = row_of(eight), unit = unit_of(eight);
    float square = squares_of_eight(a, b);
    if (NORM == 2) {
        a = gained(a, by_a);
        b = gained(b, by_b);
    }
    if (!EVEN && part * PART + unit >= UNITS) {
        a = vec4(0.0);
        b = vec4(0.0);
    }
    uint exponent = span_exponent(largest_of_lanes(largest_of_eight(a, b), CHUNK_THREADS));
    if (DIGITS_OF_X == 1 && NORM == 2) { // before they are added up: products with codes and with biases largely cancel
        a = of_11_bits(a);
        b = of_11_bits(b);
    }
    float sum = sum_of_lanes(sum_of_eight(a, b), CHUNK_THREADS);
    square = sum_of_lanes(square, 4); // of a unit, which projection_join expects
    ivec4 integers_of_x = ivec4(0);
    uvec4 high, low;
    pair_digits(a, b, exponent, integers_of_x, high, low);
    int start = start_of(sum_of_lanes(sum_of_integers(integers_of_x), CHUNK_THREADS));
    uint word = eight % CHUNK, lane = row % 8 * 4 + eight / CHUNK % 4;
    if (DIGITS_OF_X == 1) {
        work[digits_at(row / 8, unit / CHUNK, word, lane)] = high;
    } else {
        [[unroll]] for (uint i = 0; i < 2; i++) {
            work[digits_at(row / 8, unit / CHUNK, 2 * word + i, lane)] =
                uvec4(high[2 * i], high[2 * i + 1], low[2 * i], low[2 * i + 1]);
        }
    }
    if (eight % CHUNK_THREADS == 0) {
        store_factors(eight, exponent, sum, start);
    }
    uint x_row = block * SIDE + row, x_unit = part * PART + unit;
    if (NORM != 0 && eight % 4 == 0 && first_of_part && x_row < p.x_rows && x_unit < UNITS) {
        squares[x_row * UNITS + x_unit] = square;
    }
}

// Not unrolled: code that runs for the first time waits until it is fetched, so there should be little of it.
void make_digits() {
    uint passes = HIDDEN(PASSES, p.x_rows);
    [[dont_unroll]] for (uint pass = 0; pass < passes; pass++) {
        vec4 low = x_low, high = x_high, by_low = gain_low, by_high = gain_high;
        if (pass + 1 < passes) {
            load_eight(pass + 1);
        }
        make_eight(pass, low, high, by_low, by_high);
    }
}

#endif
