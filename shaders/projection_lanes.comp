// projection.comp for CPU drivers: one row of x, perhaps normalised, times the
// rows of a quantized matrix, or of two whose results become SiLU(first) * second.
//
// Such a driver runs a subgroup's lanes as one vector. It is good at arithmetic on
// whole vectors, and bad at loads, also from shared memory, which it does lane by
// lane, and at barriers. So each lane has ROWS rows of its own and reads their
// words four at a time; 32 elements of x are loaded at once, four per lane, and
// shared by broadcasts.
//
// 1/rms is a factor of every result, so it is applied at the end, and the squares
// are summed while x is loaded.
//
// requires: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in; // one subgroup of eight

#include "quads.glsl"
#include "math.glsl"
#include "lane_codes.glsl"
#include "not_finite.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(1, gain, 2)
QUADS_IN(1, gain)
layout(constant_id = 3) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 4) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 5) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 7) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 8) const uint COLS = 1024;     // of x, a multiple of a group
layout(constant_id = 9) const uint NORM = 0;        // 1: without gain, 2: with
layout(constant_id = 10) const uint EPILOGUE = 0;   // PROJECTION_*
layout(constant_id = 11) const uint ROWS = 1;       // of each matrix, in a lane

#define residual_DT y_DT
TENSOR_BLOCKS(2, residual, readonly)
TENSOR_LOADS(residual)
TENSOR_BLOCKS(6, y, )
TENSOR_STORES(y)

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint STREAMS = PAIR ? 2 * ROWS : ROWS;

uint words[STREAMS * BITS]; // of a unit of each stream
uint first_row;

uint row_of(uint r) { return min(first_row + r * 8 + gl_SubgroupInvocationID, p.sets[0].n - 1); }

// The buffers of matrix i: words, scales, biases.
#define MATRIX(i, slot) \
    LANE_WORDS(w##i, slot) \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, readonly) \
    TENSOR_LOADS(scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, readonly) \
    TENSOR_LOADS(biases##i) \
    void fetch##i(uint unit, uint first) { \
        [[unroll]] for (uint r = 0; r < ROWS; r++) { \
            w##i##_fetch(p.sets[i].w_offset + row_of(r) * p.sets[i].w_stride + unit * BITS, (first + r) * BITS); \
        } \
    } \
    vec2 affine##i(uint group, uint row) { \
        return vec2(scales##i##_load(p.sets[i].s_offset + row * p.sets[i].s_stride + group), \
                    biases##i##_load(p.sets[i].b_offset + row * p.sets[i].b_stride + group)); \
    } \
    float weight##i(uint row, uint unit, uint code) { \
        vec2 a = affine##i(unit >> GROUP_SHIFT, row); \
        uint from = p.sets[i].w_offset + row * p.sets[i].w_stride + unit * BITS; \
        return affine_weight(a.x, CODE_AT(w##i, from, code * BITS), a.y); \
    }

MATRIX(0, 3)
MATRIX(1, 7)

float dots[STREAMS];
float sum;
float square;

// Adds the products of a unit of 32 codes of every stream.
void add_unit(uint unit) {
    fetch0(unit, 0);
    if (PAIR) {
        fetch1(unit, ROWS);
    }
    uint at = 32 * unit + 4 * gl_SubgroupInvocationID;
    vec4 v = x_quad(p.x_offset + at);
    if (NORM != 0) {
        square += dot(v, v);
    }
    if (NORM == 2) {
        v *= gain_quad(p.gain_offset + at);
    }
    sum += (v.x + v.y) + (v.z + v.w);
    v = weighted(v);
    [[unroll]] for (uint j = 0; j < 8; j++) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            float one = subgroupBroadcast(v[i], j);
            [[unroll]] for (uint s = 0; s < STREAMS; s++) {
                dots[s] = fma(lane_code(s * BITS, j, i), one, dots[s]);
            }
        }
    }
}

// The sum of the products of the row with those elements of x that are not finite.
float not_finite_sum(uint second, uint row) {
    SUM_NOT_FINITE(COLS / 32, p.x_rows, x_quad(p.x_offset + 32 * unit + 4 * j),
                   second == 0 ? weight0(row, unit, code) : weight1(row, unit, code))
}

// The sum; if it is not finite, that of what is not finite alone, unless a norm makes it NaN.
float whole(float v, uint second, uint row) {
    return NORM != 0 || is_finite(v) ? v : mended(v, not_finite_sum(second, row));
}

void main() {
    uint group = workgroup_index();
    first_row = group * 8 * ROWS;
    if (first_row >= p.sets[0].n) {
        return;
    }
    float acc[STREAMS];
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        acc[s] = 0.0;
    }
    square = 0.0;
    for (uint g = 0; g < (COLS / 32) >> GROUP_SHIFT; g++) {
        sum = 0.0;
        [[unroll]] for (uint s = 0; s < STREAMS; s++) {
            dots[s] = 0.0;
        }
        for (uint u = 0; u < 1u << GROUP_SHIFT; u++) {
            add_unit((g << GROUP_SHIFT) + u);
        }
        float total = subgroupAdd(sum);
        [[unroll]] for (uint s = 0; s < STREAMS; s++) {
            vec2 a = s < ROWS ? affine0(g, row_of(s)) : affine1(g, row_of(s - ROWS));
            acc[s] += a.x * dots[s] + a.y * total;
        }
    }
    float factor = NORM == 0 ? 1.0 : inversesqrt(subgroupAdd(square) / float(COLS) + p.eps);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = first_row + r * 8 + gl_SubgroupInvocationID;
        if (row < p.sets[0].n) {
            float v = whole(acc[r], 0, row) * factor;
            if (PAIR) {
                v = m_silu(v) * (whole(acc[STREAMS - ROWS + r], 1, row) * factor);
            }
            if (EPILOGUE == PROJECTION_RESIDUAL) {
                v += residual_load(p.residual_offset + row);
            }
            y_store(p.sets[0].out_offset + row, v);
        }
    }
}
