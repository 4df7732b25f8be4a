// Adds up the results of workgroups of quantized_matmul_coopmat or
// quantized_matmul_fragments for several ranges of columns, four neighbouring
// results per thread, perhaps to a residual.
//
// variants: narrow
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "math.glsl"
#include "quads.glsl"

layout(constant_id = 1) const uint x_DT = DT_FLOAT32;
TENSOR_OUT(4, y, 5)
QUAD_BITS_OUT(4, y)
layout(set = 0, binding = 0) readonly buffer XWords { uint x_words[]; };
layout(set = 0, binding = 5) readonly buffer XExponents { int x_exponents[]; };
layout(set = 0, binding = 6) readonly buffer WExponents { int w_exponents[]; };
layout(set = 0, binding = 7) readonly buffer Sums { vec4 sums[]; };
layout(constant_id = 6) const uint SPLITS = 2;
layout(constant_id = 7) const uint RESIDUAL = 0; // whether there is one, of y's dtype
layout(constant_id = 8) const uint FRAGMENTS = 0; // whether the order of x's parts is that of quantized_matmul_fragments
#define residual_DT y_DT
QUADS_IN(8, residual)

layout(push_constant) uniform Push { QuantizedMatMulMatrixParams q; };
#define p q.product

vec4 added; // of the residual: loaded before anything is stored, which may be in its place
#define FINISHED(v) (RESIDUAL == 0 ? (v) : (v) + added)

#include "fragment_runs.glsl"
#include "quantized_result.glsl"

void main() {
    uint at = workgroup_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint quads = p.n / 4;
    if (at >= p.x.rows * quads) {
        return;
    }
    vec4 v = sums[at];
    [[unroll]] for (uint i = 1; i < SPLITS; i++) {
        v += sums[i * p.x.rows * quads + at];
    }
    uint m = at / quads;
    uint n = at % quads * 4;
    added = RESIDUAL == 0 ? vec4(0.0) : residual_quad(q.residual_offset + m * p.n + n);
    store_results(m, n, v);
    for (uint c = 0; c < 4; c++) {
        if (a_flagged(m) || b_flagged(n + c)) {
            store_plain(m, n + c);
        }
    }
}
