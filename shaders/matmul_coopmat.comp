// out[z, m, n] = sum over k of a[z, m, k] * b[z, k, n] by cooperative matrices, of
// the float16 parts that matmul_split makes of the rows of a and the columns of b.
//
// variants: narrow_khr narrow_nv
// requires: float16 subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "tensor.glsl"
#include "quads.glsl"
#include "batch.glsl"
#include "math.glsl"

TENSOR_IN(0, a, 1)
TENSOR_IN(1, b, 2)
TENSOR_OUT(2, y, 3)
QUAD_BITS_OUT(2, y)
layout(set = 0, binding = 3) readonly buffer AParts { uvec4 a_parts[]; };
layout(set = 0, binding = 4) readonly buffer BParts { uvec4 b_parts[]; };
layout(set = 0, binding = 5) readonly buffer AExponents { int a_exponents[]; };
layout(set = 0, binding = 6) readonly buffer BExponents { int b_exponents[]; };

layout(push_constant) uniform Push { MatMulMatrixParams q; };
#define p q.product

uint z; // the batch
uvec2 first; // its rows of parts of a and b

uvec4 a_run(uint part, uint m, uint run) {
    return a_parts[(part * q.a_rows + first.x + min(m, p.m - 1)) * q.runs + run];
}

#define MATRIX_SPEC 4
#define BLOCK_SPEC 7
#include "matrix_tiles.glsl"

uvec4 next_b[B_PARTS][B_TURNS];

void load_b(uint n0, uint run0) {
    [[unroll]] for (uint part = 0; part < B_PARTS; part++) {
        [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
            if (b_exists(t)) {
                uint n = first.y + min(n0 + b_row(t), p.n - 1);
                next_b[part][t] = b_parts[(part * q.b_rows + n) * q.runs + run0 + b_run(t)];
            }
        }
    }
}

void set_b_tile() {
    [[unroll]] for (uint part = 0; part < B_PARTS; part++) {
        [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
            if (b_exists(t)) {
                set_b(part, t, next_b[part][t]);
            }
        }
    }
}

// A result whose row or column float16 parts cannot represent.
float plain_product(uint m, uint n) {
    uvec2 from = batch_start(p, z);
    float sum = 0.0;
    for (uint k = 0; k < p.k; k++) {
        sum += a_load(from.x + m * p.a_strides[0] + k * p.a_strides[1]) *
               b_load(from.y + k * p.b_strides[0] + n * p.b_strides[1]);
    }
    return sum;
}

#define RESULT_M p.m
#define RESULT_N p.n
#define RESULT_OFFSET p.out_offset
uint place(uint m, uint n) { return p.out_offset + (z * p.m + m) * p.n + n; }
int a_exponent(uint m) { return a_exponents[first.x + m]; }
int b_exponent(uint n) { return b_exponents[first.y + n]; }

#include "matrix_results.glsl"

void main() {
    z = p.batch + gl_WorkGroupID.z;
    uvec3 at = batch_place(p, z);
    first = uvec2(batch_offset(at, q.a_parts), batch_offset(at, q.b_parts));
    uint tiles_m = (p.m + TILE_M - 1) / TILE_M;
    uint m0 = workgroup_index() % tiles_m * TILE_M;
    uint n0 = workgroup_index() / tiles_m * TILE_N;
    if (n0 >= p.n) {
        return;
    }
    tiles_clear();
    load_a(m0, 0);
    load_b(n0, 0);
    for (uint run = 0; run < q.runs; run += RUNS) {
        barrier();
        set_a();
        set_b_tile();
        barrier();
        if (run + RUNS < q.runs) {
            load_a(m0, run + RUNS);
            load_b(n0, run + RUNS);
        }
        tiles_multiply();
    }
    TILES_STORE(m0, n0, store_results)
    TILES_STORE_PLAIN(m0, n0, a_flagged, b_flagged, store_plain)
}
