// Finishes the products of projection_parts and projection_fragments: adds up the sums of parts, those of a slice first
// and the slices in the order of the columns, and stores what becomes of them. A workgroup has neighbouring columns of
// one row of x.
//
// variants: narrow
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // at least LANES

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"

layout(constant_id = 1) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint SETS = 1;        // matrices
layout(constant_id = 7) const uint EPILOGUE = 0;    // PROJECTION_*, but no arg_max
layout(constant_id = 8) const uint LANES = 32;      // units of a slice
layout(constant_id = 9) const uint PART = 16;       // of a part
layout(constant_id = 10) const uint SIDE = 16;      // rows of x of a block
layout(constant_id = 11) const uint BITS = 4;
layout(constant_id = 12) const uint NORM = 0; // whether x is to be multiplied by 1/rms
layout(constant_id = 13) const uint x_DT = DT_FLOAT32;
layout(constant_id = 14) const uint OVERLAP = 0; // 1 << a binding

layout(set = 0, binding = 0) readonly buffer PartSums { float part_sums[]; };
#define residual_DT y_DT
TENSOR_BLOCKS(13, residual, readonly)
TENSOR_BITS(residual)
QUADS_IN(14, x)
layout(set = 0, binding = 15) readonly buffer Squares { float squares[]; }; // of each unit of a row of x

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint SMALL_SHIFT = 5, UNIT_SCALES = 1;
const uint block = 0; // rows are not counted in blocks

const uint SPAN = 1; // nothing here depends on it
#include "code_bytes.glsl"
#include "projection_matrices.glsl"
vec4 x_in(uint at) { return x_quad(at); }
#include "byte_tile_stores.glsl"

// The columns of a row of sums.
uint width() { return ((p.sets[SETS - 1].n + 15) / 16 + (SETS == 1 ? 0 : p.starts[SETS - 2])) * 16; }

#define SUM_UNITS UNITS
#define SUM_LANES LANES
#define SUM_PART PART
#include "joined_sums.glsl"

float sum_of(uint x_row, uint column) {
    uint pitch = width(), rows = (p.x_rows + SIDE - 1) / SIDE * SIDE;
    return joined_sum(x_row * pitch + column, rows * pitch);
}

// 1/rms of the row. Called by all threads together.
float row_factor(uint row) {
    uint lane = gl_LocalInvocationIndex;
    return joined_factor(lane < LANES ? squares_of_lane(row, lane) : 0.0, p.eps);
}

void main() {
    uint x_row = workgroup_index() % p.x_rows;
    uint column = workgroup_index() / p.x_rows * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint end = PAIR ? p.starts[0] * 16 : width(); // sums of the second matrix follow those of the first
    uint tile = min(column, end - 1) / 16;
    uint matrix = uint(!PAIR && SETS > 1 && tile >= p.starts[0]) + uint(!PAIR && SETS > 2 && tile >= p.starts[1]);
    uint row = column - (matrix == 0 ? 0 : p.starts[matrix - 1] * 16);
    bool exists = column < end && row < p.sets[matrix].n;
    float v = exists ? sum_of(x_row, column) : 0.0;
    float second = PAIR && exists ? sum_of(x_row, end + column) : 0.0;
    float factor = NORM == 0 ? 1.0 : row_factor(x_row);
    if (!exists) {
        return;
    }
    v = scaled_result(whole(v, matrix, row, x_row), factor);
    if (PAIR) {
        v = silu_mul_result(v, scaled_result(whole(second, 1, row, x_row), factor));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        v += bits_to_float(residual_bits(p.residual_offset + x_row * p.sets[0].n + row), y_DT);
    }
    store(matrix, x_row, row, v);
}
