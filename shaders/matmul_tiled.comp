// out[z, m, n] = sum over k of a[z, m, k] * b[z, k, n], tile by tile. Strides
// may be anything: a transposed view is not copied.
//
// kernel: matmul_tiled TILE_QUADS=1
// kernel: matmul_tiled_large TILE_QUADS=2
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "batch.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, a, 1)
TENSOR_IN(1, b, 2)
TENSOR_OUT(2, y, 3)
// Whether neighbours along m (along n) are closer in memory than along k.
layout(constant_id = 6) const uint A_BY_M = 0;
layout(constant_id = 7) const uint B_BY_N = 0;

#define TILE_SPEC 4
#include "tile.glsl"

layout(push_constant) uniform Push { MatMulParams p; };

void fill_a(uint from, uint m0, uint k0) {
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * TILE_K; i += gl_WorkGroupSize.x) {
        uint m = A_BY_M != 0 ? i % TILE_M : tile_fill_side(i, TILE_M);
        uint k = A_BY_M != 0 ? i / TILE_M : tile_fill_k(i, TILE_M);
        float v = 0.0;
        if (m0 + m < p.m && k0 + k < p.k) {
            v = a_load(from + (m0 + m) * p.a_strides[0] + (k0 + k) * p.a_strides[1]);
        }
        tile_set_a(m, k, v);
    }
}

void fill_b(uint from, uint n0, uint k0) {
    for (uint i = gl_LocalInvocationIndex; i < TILE_N * TILE_K; i += gl_WorkGroupSize.x) {
        uint n = B_BY_N != 0 ? i % TILE_N : tile_fill_side(i, TILE_N);
        uint k = B_BY_N != 0 ? i / TILE_N : tile_fill_k(i, TILE_N);
        float v = 0.0;
        if (n0 + n < p.n && k0 + k < p.k) {
            v = b_load(from + (k0 + k) * p.b_strides[0] + (n0 + n) * p.b_strides[1]);
        }
        tile_set_b(k, n, v);
    }
}

void main() {
    uint batch = p.batch + gl_WorkGroupID.z;
    uint tiles_n = (p.n + TILE_N - 1) / TILE_N;
    uint tile = workgroup_index();
    uint m0 = tile / tiles_n * TILE_M;
    uint n0 = tile % tiles_n * TILE_N;
    if (m0 >= p.m) {
        return;
    }
    uvec2 from = batch_start(p, batch);

    tile_clear();
    for (uint k0 = 0; k0 < p.k; k0 += TILE_K) {
        fill_a(from.x, m0, k0);
        fill_b(from.y, n0, k0);
        barrier();
        tile_multiply();
        barrier();
    }

    uint to = p.out_offset + batch * p.m * p.n;
    [[unroll]] for (uint r = 0; r < 4 * TILE_QUADS; r++) {
        uint m = m0 + tile_row(r);
        [[unroll]] for (uint c = 0; c < 4 * TILE_QUADS; c++) {
            uint n = n0 + tile_col(c >> 2, c & 3u);
            if (m < p.m && n < p.n) {
                y_store(to + m * p.n + n, tile_acc[r][c >> 2][c & 3u]);
            }
        }
    }
}
