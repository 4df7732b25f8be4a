// out[m, n] = sum over k of x[m, k] * w[n, k] for a few rows of x. A slot of lanes
// processes a row of w, each lane 32 codes at a time. With code = 2^BITS * (f -
// 1), where f is a float that needs no conversion, a unit of codes contributes
// scale * 2^BITS * sum(f * x) + (bias - scale * 2^BITS) * sum(x). Without biases,
// f is the code's value and each half of a unit may have a scale of its own.
//
// variants: rolled narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#ifdef ROLLED
#define UNROLL [[dont_unroll]]
#else
#define UNROLL [[unroll]]
#endif

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "rows.glsl"
#include "not_finite.glsl"

TENSOR_IN(0, x, 1)
TENSOR_OUT(4, y, 5)

#define STAGED_SPEC 6
#include "staged_rows.glsl"
#define SLOT_SPEC 8
#include "slots.glsl"
layout(constant_id = 9) const uint VECTOR = 1; // words that may be loaded at once: 1, 2 or 4
layout(constant_id = 10) const uint BATCH = 1;  // units that a lane loads before it computes, at most MOST_BATCH
#ifdef ROLLED
const uint MOST_BATCH = 1;
#else
const uint MOST_BATCH = 4;
#endif

layout(push_constant) uniform Push { QuantizedMatMulParams p; };

shared float unit_sums[STAGED_ROWS * STAGED_CHUNK / 32];

// The index of this workgroup's first row of x.
uint first_row() { return gl_WorkGroupID.z * STAGED_ROWS; }

void stage(uint k0) {
    uint count = min(p.x.cols - k0, STAGED_CHUNK);
    for (uint m = 0; m < STAGED_ROWS; m++) {
        uint from = row_start(p.x, min(first_row() + m, p.x.rows - 1)) + k0 * p.x.col_stride;
        for (uint i = gl_LocalInvocationIndex; i < count; i += gl_WorkGroupSize.x) {
            staged_set(m, i, x_load(from + i * p.x.col_stride));
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < STAGED_ROWS * (count / 32); i += gl_WorkGroupSize.x) {
        uint m = i / (count / 32);
        uint unit = i - m * (count / 32);
        vec4 sum = vec4(0.0);
        UNROLL for (uint j = 0; j < 8; j++) {
            sum += staged_quad(m, unit * 8 + j);
        }
        unit_sums[m * (STAGED_CHUNK / 32) + unit] = (sum.x + sum.y) + (sum.z + sum.w);
    }
    barrier();
}

// The words of a unit; those past BITS are unused.
void load_unit(uint at, out uint words[8]) {
    if (VECTOR == 4) {
        UNROLL for (uint i = 0; i < 2; i++) {
            uvec4 v = i * 4 < BITS ? w_4.data[(at >> 2) + i] : uvec4(0);
            words[4 * i] = v.x;
            words[4 * i + 1] = v.y;
            words[4 * i + 2] = v.z;
            words[4 * i + 3] = v.w;
        }
        return;
    }
    UNROLL for (uint i = 0; i < 4; i++) {
        uvec2 v = uvec2(0);
        if (VECTOR == 2) {
            v = 2 * i < BITS ? w_2.data[(at >> 1) + i] : v;
        } else {
            v.x = 2 * i < BITS ? w.data[at + 2 * i * p.w_strides[1]] : 0u;
            v.y = 2 * i + 1 < BITS ? w.data[at + (2 * i + 1) * p.w_strides[1]] : 0u;
        }
        words[2 * i] = v.x;
        words[2 * i + 1] = v.y;
    }
}

float fraction(uint words[8], uint i) {
    uint bit = i * BITS;
    uint shift = bit & 31u;
    uint at = bit >> 5;
    if (SMALL_FLOATS) {
        return code_value((words[at & 7u] >> shift) & CODE_MASK);
    }
    if (shift + BITS > 32) {
        return affine_fraction((words[at & 7u] >> shift) | (words[(at + 1) & 7u] << (32 - shift)), 0);
    }
    return affine_fraction(words[at & 7u], shift);
}

float acc[STAGED_MOST];

// Scale and bias of a unit, the one at `unit` of the row; without biases, the scales of its halves.
vec2 unit_factors(uint unit, uint scales_from, uint biases_from) {
    uint group = unit * 32u >> p.group_shift;
    float scale = group_scale(scales_from + group * p.s_strides[1], p.group_shift);
    if (!SMALL_FLOATS) {
        return vec2(scale, group_bias(biases_from + group * p.b_strides[1]));
    }
    return vec2(scale, p.group_shift == 4u ? group_scale(scales_from + (group + 1u) * p.s_strides[1], 4u) : scale);
}

// Adds the products of a unit, the one at `unit` of the staged chunk.
void add_unit(uint words[8], float scale, float bias, uint unit) {
    float dots[STAGED_MOST];
    UNROLL for (uint m = 0; m < STAGED_MOST; m++) {
        dots[m] = 0.0;
    }
    UNROLL for (uint j = 0; j < 8; j++) {
        vec4 f = vec4(fraction(words, 4 * j), fraction(words, 4 * j + 1), fraction(words, 4 * j + 2),
                      fraction(words, 4 * j + 3));
        if (SMALL_FLOATS) {
            f *= j < 4u ? scale : bias;
        }
        UNROLL for (uint m = 0; m < STAGED_MOST; m++) {
            if (m < STAGED_ROWS) {
                dots[m] += dot(f, staged_quad(m, unit * 8 + j));
            }
        }
    }
    float factor = SMALL_FLOATS ? 1.0 : scale * FRACTION_SCALE;
    float rest = SMALL_FLOATS ? 0.0 : bias - factor;
    UNROLL for (uint m = 0; m < STAGED_MOST; m++) {
        if (m < STAGED_ROWS) {
            acc[m] += factor * dots[m] + rest * unit_sums[m * (STAGED_CHUNK / 32) + unit];
        }
    }
}

// Adds the lane's share of the staged chunk of a row of w.
void add_chunk(uint row, uint k0) {
    uint units = min(p.x.cols - k0, STAGED_CHUNK) / 32;
    uint from = p.w_offset + row * p.w_strides[0];
    uint scales_from = p.s_offset + row * p.s_strides[0];
    uint biases_from = p.b_offset + row * p.b_strides[0];
    uint lanes = slot_lanes();
    for (uint first = slot_lane(); first < units; first += lanes * BATCH) {
        uint words[MOST_BATCH][8];
        vec2 affine[MOST_BATCH];
        UNROLL for (uint i = 0; i < MOST_BATCH; i++) {
            uint unit = first + i * lanes;
            if (i < BATCH && unit < units) {
                load_unit(from + (k0 / 32 + unit) * BITS * p.w_strides[1], words[i]);
                affine[i] = unit_factors(k0 / 32 + unit, scales_from, biases_from);
            }
        }
        UNROLL for (uint i = 0; i < MOST_BATCH; i++) {
            uint unit = first + i * lanes;
            if (i < BATCH && unit < units) {
                add_unit(words[i], affine[i].x, affine[i].y, unit);
            }
        }
    }
}

// The sum of the products of a row of w with those elements of a row of x that are not finite.
float not_finite_sum(uint x_row, uint row) {
    uint from = row_start(p.x, x_row), words_from = p.w_offset + row * p.w_strides[0];
    uint scales_from = p.s_offset + row * p.s_strides[0], biases_from = p.b_offset + row * p.b_strides[0];
    float sum = 0.0;
    [[dont_unroll]] for (uint unit = 0; unit < p.x.cols / 32; unit++) {
        uint group = unit * 32u >> p.group_shift;
        [[dont_unroll]] for (uint i = 0; i < HIDDEN(32, p.x.rows); i++) {
            float v = x_load(from + (unit * 32 + i) * p.x.col_stride);
            if (!is_finite(v)) {
                uint code = affine_code(words_from, p.w_strides[1], unit * 32 + i);
                float scale = group_scale(scales_from + group * p.s_strides[1], p.group_shift);
                sum += affine_weight(scale, code, group_bias(biases_from + group * p.b_strides[1])) * v;
            }
        }
    }
    return sum;
}

void main() {
    uint slots = slot_count();
    uint rows = min(p.n, (workgroup_index() + 1) * p.rows_per_group);
    for (uint turn = 0; turn < p.rows_per_group; turn += slots) {
        uint row = workgroup_index() * p.rows_per_group + turn + slot_index();
        UNROLL for (uint m = 0; m < STAGED_MOST; m++) {
            acc[m] = 0.0;
        }
        for (uint k0 = 0; k0 < p.x.cols; k0 += STAGED_CHUNK) {
            if (turn == 0 || p.x.cols > STAGED_CHUNK) {
                barrier();
                stage(k0);
            }
            if (row < rows) {
                add_chunk(row, k0);
            }
        }
        UNROLL for (uint m = 0; m < STAGED_MOST; m++) {
            if (m < STAGED_ROWS) { // those past the last row of x are copies of it
                float sum = slot_sum(acc[m]);
                if (row < rows && first_row() + m < p.x.rows && slot_lane() == 0) {
                    if (!SMALL_FLOATS && !is_finite(sum)) {
                        sum = mended(sum, not_finite_sum(first_row() + m, row));
                    }
                    y_store(p.out_offset + (first_row() + m) * p.n + row, sum);
                }
            }
        }
    }
}
