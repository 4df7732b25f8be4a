// quantized_matmul_vec.comp for CPU drivers, built like projection_lanes.comp: out[m,
// n] = sum over k of x[m, k] * w[n, k], where each lane handles ROWS rows of w, and
// each workgroup X_ROWS rows of x, so that a code is unpacked once for all of them.
//
// requires: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require

#include "rows.glsl" // a workgroup is one subgroup of eight
#include "quads.glsl"
#include "lane_codes.glsl"
#include "not_finite.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(2, scales, 2)
TENSOR_IN(3, biases, 3)
TENSOR_OUT(4, y, 4)
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 7) const uint X_ROWS = 1;

layout(push_constant) uniform Push { QuantizedMatMulParams p; };

uint words[ROWS * BITS]; // of a unit of each row
LANE_WORDS(w, 1)
uint starts[X_ROWS];     // of the rows of x
float dots[ROWS * X_ROWS];
float sums[X_ROWS];

uint first_row() { return workgroup_index() * 8 * ROWS; }
uint row_of(uint r) { return min(first_row() + r * 8 + gl_SubgroupInvocationID, p.n - 1); }

// Adds the products of a unit of 32 codes of every row.
void add_unit(uint unit) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        w_fetch(p.w_offset + row_of(r) * p.w_strides[0] + unit * BITS, r * BITS);
    }
    vec4 v[X_ROWS];
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        v[m] = x_quad(starts[m] + 32 * unit + 4 * gl_SubgroupInvocationID);
        sums[m] += (v[m].x + v[m].y) + (v[m].z + v[m].w);
        v[m] = weighted(v[m]);
    }
    [[unroll]] for (uint j = 0; j < 8; j++) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            float codes[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                codes[r] = lane_code(r * BITS, j, i);
            }
            [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
                float one = subgroupBroadcast(v[m][i], j);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    dots[m * ROWS + r] = fma(codes[r], one, dots[m * ROWS + r]);
                }
            }
        }
    }
}

float weight(uint row, uint unit, uint code) {
    uint group = unit * 32u >> p.group_shift;
    float scale = scales_load(p.s_offset + row * p.s_strides[0] + group * p.s_strides[1]);
    float bias = biases_load(p.b_offset + row * p.b_strides[0] + group * p.b_strides[1]);
    return affine_weight(scale, CODE_AT(w, p.w_offset + row * p.w_strides[0] + unit * BITS, code * BITS), bias);
}

// The sum of the products of a row of w with those elements of row m of x that are not finite.
float not_finite_sum(uint m, uint row) {
    SUM_NOT_FINITE(p.x.cols / 32, p.x.rows, x_quad(starts[m] + 32 * unit + 4 * j), weight(row, unit, code))
}

void main() {
    if (first_row() >= p.n) {
        return;
    }
    uint first_x = gl_WorkGroupID.z * X_ROWS;
    float acc[ROWS * X_ROWS];
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        starts[m] = row_start(p.x, min(first_x + m, p.x.rows - 1));
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            acc[m * ROWS + r] = 0.0;
        }
    }
    for (uint g = 0; g < p.x.cols >> p.group_shift; g++) {
        [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
            sums[m] = 0.0;
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                dots[m * ROWS + r] = 0.0;
            }
        }
        uint units = 1u << (p.group_shift - 5);
        for (uint u = 0; u < units; u++) {
            add_unit(g * units + u);
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float scale = scales_load(p.s_offset + row_of(r) * p.s_strides[0] + g * p.s_strides[1]);
            float bias = biases_load(p.b_offset + row_of(r) * p.b_strides[0] + g * p.b_strides[1]);
            [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
                acc[m * ROWS + r] += scale * dots[m * ROWS + r] + bias * subgroupAdd(sums[m]);
            }
        }
    }
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint row = first_row() + r * 8 + gl_SubgroupInvocationID;
            if (row < p.n && first_x + m < p.x.rows) {
                float v = acc[m * ROWS + r];
                if (!is_finite(v)) {
                    v = mended(v, not_finite_sum(m, row));
                }
                y_store(p.out_offset + (first_x + m) * p.n + row, v);
            }
        }
    }
}
