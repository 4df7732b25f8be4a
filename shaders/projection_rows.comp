// Rows of x, perhaps normalised, as projection_coopmat reads them: SIDE rows make a
// block, and of each unit of 32 columns of a block there are three matrices of
// bytes, 32 columns by SIDE rows, the digits of the integers of unit_integers.glsl
// with the lowest first; what the integers are multiples of, and the unit's sums.
// Digits are from -128 to 127. The even columns of every eight come first, as codes
// do when a word is masked. Then there is 1/rms of each row. A workgroup makes one
// row; those behind the last are zeros.
//
// variants: narrow_subgroup subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"
#include "unit_integers.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(1, gain, 2)
QUADS_IN(1, gain)
layout(constant_id = 3) const uint COLS = 1024; // of x, a multiple of 32
layout(constant_id = 4) const uint NORM = 0;    // 1: without gain, 2: with
layout(constant_id = 5) const uint LANES = 32;  // of projection.comp: they sum the squares
layout(constant_id = 6) const uint SIDE = 16;   // rows of a block
layout(set = 0, binding = 2) writeonly buffer Digits { uvec2 digits[]; };
layout(set = 0, binding = 3) writeonly buffer Units { float units[]; }; // of a block: multiples of SIDE rows, then sums
layout(set = 0, binding = 4) writeonly buffer Factors { float factors[]; };

layout(push_constant) uniform Push { ProjectionRowsParams p; };

const uint UNITS = COLS / 32;

shared float unit_squares[NORM == 0 ? 1 : UNITS];

uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

// Columns 8i to 8i + 7 of the row.
void make_eight(uint row, uint i, bool exists) {
    bool is_row = row < p.x_rows;
    uint from = p.x_offset + min(row, p.x_rows - 1) * p.x_stride + 8 * i;
    vec4 a = is_row ? x_quad(from) : vec4(0.0), b = is_row ? x_quad(from + 4) : vec4(0.0);
    float square = squares_of_eight(a, b);
    if (NORM == 2) {
        a = gained(a, gain_quad(p.gain_offset + 8 * i));
        b = gained(b, gain_quad(p.gain_offset + 8 * i + 4));
    }
    uint exponent = unit_exponent(a, b);
    ivec4 low = integers(a, exponent), high = integers(b, exponent);
    ivec4 even = ivec4(low.xz, high.xz), odd = ivec4(low.yw, high.yw);
    float sum = sum_of_eight(a, b);
    [[unroll]] for (uint bit = 1; bit < 4; bit *= 2) {
        sum += subgroupShuffleXor(sum, bit);
        square += subgroupShuffleXor(square, bit);
    }
    if (!exists) {
        return;
    }
    uint unit = row / SIDE * UNITS + i / 4;
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        digits[((unit * 3 + digit) * SIDE + row % SIDE) * 4 + (i & 3)] = uvec2(bytes_of(even, 0), bytes_of(odd, 0));
        even = (even - ((even << 24) >> 24)) >> 8;
        odd = (odd - ((odd << 24) >> 24)) >> 8;
    }
    if ((i & 3) == 0) {
        units[unit * 2 * SIDE + row % SIDE] = unit_multiple(exponent);
        units[unit * 2 * SIDE + SIDE + row % SIDE] = sum;
        if (NORM != 0) {
            unit_squares[i / 4] = square;
        }
    }
}

void main() {
    uint row = workgroup_index();
    if (row >= (p.x_rows + SIDE - 1) / SIDE * SIDE) {
        return;
    }
    [[dont_unroll]] for (uint first = 0; first < UNITS * 4; first += gl_WorkGroupSize.x) {
        // The last threads repeat a whole unit, so that every four still have one.
        uint wanted = first + thread_index();
        uint i = wanted < UNITS * 4 ? wanted : (UNITS - 1) * 4 + (wanted & 3);
        make_eight(row, i, wanted < UNITS * 4);
    }
    float factor = 1.0;
    if (NORM != 0) {
        barrier();
        float sum = 0.0;
        for (uint unit = thread_index() % LANES; unit < UNITS; unit += LANES) {
            sum += unit_squares[unit];
        }
        [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
            sum += subgroupShuffleXor(sum, bit);
        }
        factor = norm_factor(sum, COLS, p.eps);
    }
    if (thread_index() == 0) {
        factors[row] = factor;
    }
}
