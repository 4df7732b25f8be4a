// Adds up the sums of slices of projection_coopmat's workgroups, in the order of the
// columns, perhaps to a residual. Neighbouring threads have neighbouring rows of w.
//
// variants: narrow
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"

layout(constant_id = 1) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint EPILOGUE = 0;    // PROJECTION_STORE or PROJECTION_RESIDUAL
layout(constant_id = 7) const uint SLICES = 2;

layout(set = 0, binding = 0) readonly buffer SliceSums { float slice_sums[]; };
layout(set = 0, binding = 1) readonly buffer w_Block1 { uint data[]; } w_1;
#define BITS_IN(slot, name) \
    TENSOR_BLOCKS(slot, name, readonly) \
    TENSOR_BITS(name)
BITS_IN(2, scales)
BITS_IN(3, biases)
TENSOR_BLOCKS(4, y, )
TENSOR_STORES(y)
#define residual_DT y_DT
BITS_IN(5, residual)
layout(constant_id = 8) const uint x_DT = DT_FLOAT32;
QUADS_IN(6, x)

layout(push_constant) uniform Push { ProjectionParams p; };

layout(constant_id = 9) const uint BITS = 4;

const uint UNITS = COLS / 32, SMALL_SHIFT = 5;

#include "code_bytes.glsl"

float weight(uint row, uint unit, uint code) {
    uint at = p.sets[0].w_offset + row * p.sets[0].w_stride + unit * BITS, group = unit >> GROUP_SHIFT;
    return code_weight(CODE_AT(w, at, code * BITS),
                       scales_bits(p.sets[0].s_offset + row * p.sets[0].s_stride + group),
                       SMALL_FLOATS ? 0 : biases_bits(p.sets[0].b_offset + row * p.sets[0].b_stride + group));
}

// The sum of the products of a row of w with those elements of a row of x that are not finite.
float not_finite_sum(uint w_row, uint x_row) {
    uint from = p.x_offset + x_row * COLS;
    SUM_NOT_FINITE(UNITS, p.x_rows, x_quad(from + unit * 32 + 4 * j), weight(w_row, unit, code))
}

void main() {
    uint n = p.sets[0].n, at = workgroup_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (at >= p.x_rows * n) {
        return;
    }
    float slices[SLICES];
    [[unroll]] for (uint i = 0; i < SLICES; i++) {
        slices[i] = slice_sums[i * p.x_rows * n + at];
    }
    float v = 0.0;
    [[unroll]] for (uint i = 0; i < SLICES; i++) {
        v += slices[i];
    }
    if (!is_finite(v)) {
        v = mended(v, not_finite_sum(at % n, at / n));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        v += bits_to_float(residual_bits(p.residual_offset + at), y_DT);
    }
    y_store(p.sets[0].out_offset + at, v);
}
