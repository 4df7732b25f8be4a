// out[m, n] = sum over k of x[m, k] * w[k, n], tile by tile; each tile of w is
// dequantized once for all rows of x. w is stored as [N, K] (TRANSPOSE) or [K, N].
//
// kernel: quantized_matmul_tiled TILE_QUADS=1
// kernel: quantized_matmul_tiled_large TILE_QUADS=2
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "rows.glsl"

TENSOR_IN(0, x, 1)
TENSOR_OUT(4, y, 5)
layout(constant_id = 8) const uint TRANSPOSE = 1;

#define TILE_SPEC 6
#include "tile.glsl"

layout(push_constant) uniform Push { QuantizedMatMulParams p; };

// Offsets of this workgroup's rows of x.
shared uint x_rows[TILE_M];

void fill_x(uint m0, uint k0) {
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * TILE_K; i += gl_WorkGroupSize.x) {
        uint m = tile_fill_side(i, TILE_M);
        uint k = tile_fill_k(i, TILE_M);
        float v = 0.0;
        if (m0 + m < p.x.rows && k0 + k < p.x.cols) {
            v = x_load(x_rows[m] + (k0 + k) * p.x.col_stride);
        }
        tile_set_a(m, k, v);
    }
}

// Codes first..first+7 of a stored row, dequantized; first is a multiple of 8.
void dequantize8(uint row, uint first, out float v[8]) {
    uint at = p.w_offset + row * p.w_strides[0];
    uint bit = first * BITS;
    at += (bit >> 5) * p.w_strides[1];
    bit &= 31u; // a multiple of 8
    uint words[3];
    words[0] = w.data[at];
    words[1] = bit + 8 * BITS > 32 ? w.data[at + p.w_strides[1]] : 0u;
    words[2] = bit + 8 * BITS > 64 ? w.data[at + 2 * p.w_strides[1]] : 0u;
    if (bit != 0) {
        words[0] = (words[0] >> bit) | (words[1] << (32 - bit));
        words[1] = (words[1] >> bit) | (words[2] << (32 - bit));
    }
    uint group = first >> p.group_shift;
    float scale = group_scale(p.s_offset + row * p.s_strides[0] + group * p.s_strides[1], p.group_shift);
    float bias = group_bias(p.b_offset + row * p.b_strides[0] + group * p.b_strides[1]);
    [[unroll]] for (uint j = 0; j < 8; j++) {
        uint b = j * BITS;
        uint code = words[b >> 5] >> (b & 31u);
        if ((b & 31u) + BITS > 32) {
            code |= words[1] << (32u - (b & 31u));
        }
        v[j] = scale * code_value(code & CODE_MASK) + bias;
    }
}

void fill_w(uint n0, uint k0) {
    float v[8];
    if (TRANSPOSE != 0) {
        for (uint i = gl_LocalInvocationIndex; i < TILE_N * (TILE_K / 8); i += gl_WorkGroupSize.x) {
            uint n = i % TILE_N;
            uint k = i / TILE_N * 8;
            bool inside = n0 + n < p.n && k0 + k < p.x.cols;
            if (inside) {
                dequantize8(n0 + n, k0 + k, v);
            }
            [[unroll]] for (uint j = 0; j < 8; j++) {
                tile_set_b(k + j, n, inside ? v[j] : 0.0);
            }
        }
        return;
    }
    for (uint i = gl_LocalInvocationIndex; i < TILE_K * (TILE_N / 8); i += gl_WorkGroupSize.x) {
        uint n = i % (TILE_N / 8) * 8;
        uint k = i / (TILE_N / 8);
        bool inside = n0 + n < p.n && k0 + k < p.x.cols;
        if (inside) {
            dequantize8(k0 + k, n0 + n, v);
        }
        [[unroll]] for (uint j = 0; j < 8; j++) {
            tile_set_b(k, n + j, inside ? v[j] : 0.0);
        }
    }
}

void main() {
    uint tiles_n = (p.n + TILE_N - 1) / TILE_N;
    uint tile = workgroup_index();
    uint m0 = tile / tiles_n * TILE_M;
    uint n0 = tile % tiles_n * TILE_N;
    if (m0 >= p.x.rows) {
        return;
    }
    for (uint m = gl_LocalInvocationIndex; m < TILE_M; m += gl_WorkGroupSize.x) {
        x_rows[m] = row_start(p.x, min(m0 + m, p.x.rows - 1));
    }
    barrier();

    tile_clear();
    for (uint k0 = 0; k0 < p.x.cols; k0 += TILE_K) {
        fill_x(m0, k0);
        fill_w(n0, k0);
        barrier();
        tile_multiply();
        barrier();
    }

    [[unroll]] for (uint r = 0; r < 4 * TILE_QUADS; r++) {
        uint m = m0 + tile_row(r);
        [[unroll]] for (uint c = 0; c < 4 * TILE_QUADS; c++) {
            uint n = n0 + tile_col(c >> 2, c & 3u);
            if (m < p.x.rows && n < p.n) {
                y_store(p.out_offset + m * p.n + n, tile_acc[r][c >> 2][c & 3u]);
            }
        }
    }
}
