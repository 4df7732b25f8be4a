// Converts rows of x, perhaps normalised, to the form that projection_coopmat reads:
// SIDE rows make a block, and of each chunk of 4 units of 32 columns of a block there
// are three matrices of bytes, the digits of the integers of unit_integers.glsl with
// the lowest first; and for each row of a unit what X_CHUNK lists. Digits are
// from -128 to 127. The even columns of every eight may come first, like the codes of
// a masked word. In place of rows beyond the last, the last is repeated; units beyond the
// last are not written.
// Each team of 32 threads converts 8 rows of one unit of a block, or fewer rows of a span of several units.
//
// variants: narrow_subgroup subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in; // 32 * TEAMS

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(1, gain, 2)
QUADS_IN(1, gain)
layout(constant_id = 3) const uint COLS = 1024; // of x, a multiple of 32
layout(constant_id = 4) const uint NORM = 0;    // 1: without gain, 2: with
layout(constant_id = 5) const uint TEAMS = 4;
layout(constant_id = 6) const uint SIDE = 16; // rows of a block
layout(constant_id = 7) const uint EVEN_FIRST = 1; // as in code_bytes.glsl
layout(constant_id = 8) const uint MIDDLE = 0;     // the same
layout(constant_id = 9) const uint SPAN = 1;       // units of a span: unit_integers.glsl
layout(set = 0, binding = 2) writeonly buffer Units { uvec2 units[]; }; // X_CHUNK quads for each chunk
layout(set = 0, binding = 2) writeonly buffer Stats { uint stats[]; };

layout(push_constant) uniform Push { ProjectionRowsParams p; };

#include "unit_digits.glsl"

const uint UNITS = COLS / 32;
const uint CHUNKS = (UNITS + 3) / 4;

uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }
uint team() { return thread_index() / 32; }

// Columns 8i to 8i + 7 of a unit of a row of the block.
void make_eight(uint block, uint unit, uint row, uint i) {
    uint column = 32 * unit + 8 * i;
    uint from = p.x_offset + min(block * SIDE + row, p.x_rows - 1) * p.x_stride + column;
    vec4 a = x_quad(from), b = x_quad(from + 4);
    vec4 gain_a = NORM == 2 ? gain_quad(p.gain_offset + column) : vec4(1.0);
    vec4 gain_b = NORM == 2 ? gain_quad(p.gain_offset + column + 4) : vec4(1.0);
    UnitDigits made = unit_digits(a, b, NORM == 2, gain_a, gain_b, EVEN_FIRST != 0);
    uint to = (block * CHUNKS + unit / 4) * X_CHUNK(SIDE);
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        units[(to + (digit * SIDE + row) * X_PITCH) * 2 + unit % 4 * 4 + i] = made.digits[digit];
    }
    if (i == 0) {
        uint at = to * 4 + unit % 4 * SIDE + row;
        stats[at + X_MULTIPLES(SIDE) * 4] = floatBitsToUint(made.multiple);
        stats[at + X_SUMS(SIDE) * 4] = floatBitsToUint(made.sum);
        stats[at + X_STARTS(SIDE) * 4] = uint(made.start);
        stats[at + X_SQUARES(SIDE) * 4] = floatBitsToUint(made.square);
    }
}

void main() {
    const uint lanes = 4 * SPAN, rows = 32 / lanes, passes = SIDE / rows; // of a span, of a team, and over a block
    const uint parts = UNITS / SPAN * passes;
    const uint groups = (parts + TEAMS - 1) / TEAMS; // of a block
    uint block = workgroup_index() / groups;
    uint wanted = workgroup_index() % groups * TEAMS + team();
    if (block * SIDE >= p.x_rows) {
        return;
    }
    uint part = min(wanted, parts - 1); // threads beyond the last repeat it, so that shuffles are not in a branch
    uint row = part % passes * rows + thread_index() % 32 / lanes;
    make_eight(block, part / passes * SPAN + thread_index() % lanes / 4, row, thread_index() & 3u);
}
