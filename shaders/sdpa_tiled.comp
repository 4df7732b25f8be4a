// Attention of 64 queries per workgroup, for prompts: tiles of 64 keys go
// through shared memory once for all of them. The query heads that read one key
// head are rows of the same tile, adjacent at the same step. For each tile it
// computes scores by a register-blocked product, a running softmax over them,
// and their product with the values.
//
// requires: shared32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "quads.glsl"

layout(local_size_x = 256) in;
TENSOR_IN(0, q, 1)
TENSOR_IN(1, k, 2)
TENSOR_IN(2, v, 3)
TENSOR_IN(3, mask, 4)
layout(set = 0, binding = 4) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(5, y, 5)
QUADS_IN(1, k)
QUADS_IN(2, v)
layout(constant_id = 6) const uint K_VECTOR = 0; // whether k (v) can be loaded in quads
layout(constant_id = 7) const uint V_VECTOR = 0;
layout(constant_id = 8) const uint MASK_KIND = 0;
layout(constant_id = 9) const uint HAS_LENGTH = 0;
layout(constant_id = 10) const uint DV_TILES = 2; // of 64 elements of v's head, at most 4

layout(push_constant) uniform Push { SDPAParams p; };

#include "attention.glsl"

const uint TILE = 64;             // rows, keys, and elements of v's head
const uint PITCH = TILE / 4 + 1;  // quads of a shared row; odd, to avoid bank conflicts
const uint DEPTH = 16;            // elements of the head at a time
const uint VALUE_KEYS = 32;       // keys of v at a time
const uint PARTS = 4;             // threads that share a row's softmax

shared vec4 scores[TILE * PITCH];          // by key, then by row
shared vec4 operands[2 * DEPTH * PITCH];   // q and k by element, or v by key
shared vec4 row_keep[TILE / 4];            // factor of a row's sums so far
shared float row_part[PARTS * TILE];
shared uint q_start[TILE];                 // offset of the row's head in q
shared uint special_s;                     // whether some values are not finite

uint tile_row(uint r) { return gl_LocalInvocationIndex / 16 * 4 + r; } // of the thread's 4 by 4 block
uint tile_col() { return gl_LocalInvocationIndex % 16; }               // in quads

vec4 block[4];           // products: [row], columns
vec4 acc[4][DV_TILES];   // the output so far: [row][tile], columns

// Adds count columns of one operand times as many rows of the other.
void multiply(uint a_from, uint b_from, uint count) {
    [[dont_unroll]] for (uint e = 0; e < count; e += 4) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 a = operands[a_from + (e + i) * PITCH + gl_LocalInvocationIndex / 16];
            vec4 b = operands[b_from + (e + i) * PITCH + tile_col()];
            [[unroll]] for (uint r = 0; r < 4; r++) {
                block[r] += a[r] * b;
            }
        }
    }
}

void fill_operand(uint from, uint row, uint e, vec4 value) {
    [[unroll]] for (uint c = 0; c < 4; c++) {
        operands[from + (e + c) * PITCH + row / 4][row & 3u] = value[c];
    }
}

vec4 load_k(uint from, uint e) {
    vec4 r = vec4(0.0);
    if (K_VECTOR != 0) {
        return e < p.d ? k_quad(from + e) : r;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (e + c < p.d) {
            r[c] = k_load(from + (e + c) * p.k_strides[3]);
        }
    }
    return r;
}

vec4 load_v(uint from, uint e) {
    vec4 r = vec4(0.0);
    if (V_VECTOR != 0) {
        return e < p.dv ? v_quad(from + e) : r;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (e + c < p.dv) {
            r[c] = v_load(from + (e + c) * p.v_strides[3]);
        }
    }
    return r;
}

// scores of the keys key0..key0+63 below end, for all rows.
void score_tile(uint k_from, uint key0, uint end) {
    uint row = gl_LocalInvocationIndex / 4; // of q and of k
    uint e4 = gl_LocalInvocationIndex % 4 * 4;
    [[unroll]] for (uint r = 0; r < 4; r++) {
        block[r] = vec4(0.0);
    }
    for (uint e = 0; e < p.d; e += DEPTH) {
        vec4 a = vec4(0.0);
        [[unroll]] for (uint c = 0; c < 4; c++) {
            if (e + e4 + c < p.d) {
                a[c] = q_load(q_start[row] + (e + e4 + c) * p.q_strides[3]) * (p.scale * LOG2_E);
            }
        }
        vec4 b = key0 + row < end ? load_k(k_from + (key0 + row) * p.k_strides[2], e + e4) : vec4(0.0);
        barrier();
        fill_operand(0, row, e4, a);
        fill_operand(DEPTH * PITCH, row, e4, b);
        barrier();
        multiply(0, DEPTH * PITCH, DEPTH);
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        scores[(tile_col() * 4 + c) * PITCH + gl_LocalInvocationIndex / 16] =
            vec4(block[0][c], block[1][c], block[2][c], block[3][c]);
    }
}

// The thread's part of a row's softmax. A row with end 0 sees nothing.
struct Row {
    uint mask_from;
    uint end;
    float highest;
    float weight; // of the thread's keys only
};

// Turns the tile's scores into weights relative to the highest score so far.
void weigh_tile(inout Row row, uint key0) {
    uint r = gl_LocalInvocationIndex % TILE;
    uint part = gl_LocalInvocationIndex / TILE;
    float top = row.highest;
    for (uint j = part; j < TILE; j += PARTS) {
        float s = LOWEST;
        if (key0 + j < row.end) {
            float bias = key_bias(row.mask_from, key0 + j);
            s = bias != LOWEST ? scores[j * PITCH + r / 4][r & 3u] + bias : LOWEST;
        }
        scores[j * PITCH + r / 4][r & 3u] = s;
        top = max(top, s);
    }
    row_part[part * TILE + r] = top;
    barrier();
    for (uint i = 0; i < PARTS; i++) {
        top = max(top, row_part[i * TILE + r]);
    }
    float keep = exp2(row.highest - top);
    row.highest = top;
    row.weight *= keep;
    for (uint j = part; j < TILE; j += PARTS) {
        float s = scores[j * PITCH + r / 4][r & 3u];
        float e = s == LOWEST ? 0.0 : exp2(s - top);
        scores[j * PITCH + r / 4][r & 3u] = e;
        row.weight += e;
    }
    if (part == 0) {
        row_keep[r / 4][r & 3u] = keep;
    }
}

bvec4 not_finite(vec4 v) { return equal(floatBitsToUint(v) & 0x7f800000u, uvec4(0x7f800000u)); }

// Adds the tile's weighted values. Keys at or past end do not exist. Values that are not finite are left to
// add_special: weights of hidden keys are 0, which would make NaNs of them.
void add_values(uint v_from, uint key0, uint end) {
    vec4 keep = row_keep[gl_LocalInvocationIndex / 16];
    [[unroll]] for (uint t = 0; t < DV_TILES; t++) {
        [[unroll]] for (uint r = 0; r < 4; r++) {
            acc[r][t] *= keep[r];
        }
        for (uint j0 = 0; j0 < TILE; j0 += VALUE_KEYS) {
            barrier();
            for (uint i = gl_LocalInvocationIndex; i < VALUE_KEYS * TILE / 4; i += 256) {
                uint j = i / (TILE / 4);
                uint quad = i % (TILE / 4);
                uint key = key0 + j0 + j;
                vec4 value = key < end ? load_v(v_from + key * p.v_strides[2], t * TILE + quad * 4) : vec4(0.0);
                bvec4 special = not_finite(value);
                if (any(special)) {
                    special_s = 1;
                }
                operands[j * PITCH + quad] = mix(value, vec4(0.0), special);
            }
            barrier();
            [[dont_unroll]] for (uint j = 0; j < VALUE_KEYS; j += 4) {
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    vec4 a = scores[(j0 + j + i) * PITCH + gl_LocalInvocationIndex / 16];
                    vec4 b = operands[(j + i) * PITCH + tile_col()];
                    [[unroll]] for (uint r = 0; r < 4; r++) {
                        acc[r][t] += a[r] * b;
                    }
                }
            }
        }
    }
}

// What a row's sums are to be multiplied by; 0 if it saw no key.
float row_factor(uint r) {
    float sum = 0.0;
    for (uint i = 0; i < PARTS; i++) {
        sum += row_part[i * TILE + r];
    }
    return sum == 0.0 ? 0.0 : 1.0 / sum;
}

// Where row row of the key head stores its result.
uint result_of(uint row, uint batch, uint head0) {
    uint i = row / p.group;
    return p.out_offset + ((batch * p.heads + head0 + row - i * p.group) * p.queries + i) * p.dv;
}

void store_tile(uint row0, uint rows, uint batch, uint head0, Row state) {
    barrier();
    row_part[gl_LocalInvocationIndex] = state.weight;
    barrier();
    [[unroll]] for (uint r = 0; r < 4; r++) {
        uint row = row0 + tile_row(r);
        if (row >= rows) {
            continue;
        }
        float factor = row_factor(tile_row(r));
        uint to = result_of(row, batch, head0);
        [[unroll]] for (uint t = 0; t < DV_TILES; t++) {
            [[unroll]] for (uint c = 0; c < 4; c++) {
                uint e = t * TILE + tile_col() * 4 + c;
                if (e < p.dv) {
                    y_store(to + e, acc[r][t][c] * factor);
                }
            }
        }
    }
}

#include "tiled_special.glsl"

void clear_sums() {
    [[unroll]] for (uint r = 0; r < 4; r++) {
        [[unroll]] for (uint t = 0; t < DV_TILES; t++) {
            acc[r][t] = vec4(0.0);
        }
    }
}

void main() {
    uint rows = p.queries * p.group;
    uint tiles = (rows + TILE - 1) / TILE;
    uint key_head = workgroup_index() / tiles; // over the batch
    uint row0 = (tiles - 1 - workgroup_index() % tiles) * TILE; // those that see most keys first
    uint head0 = key_head % (p.heads / p.group) * p.group;
    uint batch = key_head / (p.heads / p.group);
    if (batch >= p.rows / (p.heads * p.queries)) {
        return;
    }
    uint length = key_length();
    uint row = min(row0 + gl_LocalInvocationIndex % TILE, rows - 1);
    uint i = row / p.group;
    uint head = head0 + row - i * p.group;
    if (gl_LocalInvocationIndex == 0) {
        special_s = 0;
    }
    if (gl_LocalInvocationIndex < TILE) {
        q_start[gl_LocalInvocationIndex] =
            p.q_offset + batch * p.q_strides[0] + head * p.q_strides[1] + i * p.q_strides[2];
    }
    Row state = Row(mask_row(batch, head, i), key_end(length, i), LOWEST, 0.0);
    clear_sums();
    barrier();

    uint k_from = p.k_offset + batch * p.k_strides[0] + head0 / p.group * p.k_strides[1];
    uint v_from = p.v_offset + batch * p.v_strides[0] + head0 / p.group * p.v_strides[1];
    uint end = key_end(length, (min(row0 + TILE, rows) - 1) / p.group); // of the last row, which sees most
    for (uint key0 = 0; key0 < end; key0 += TILE) {
        score_tile(k_from, key0, end);
        barrier();
        weigh_tile(state, key0);
        barrier();
        add_values(v_from, key0, end);
    }
    store_tile(row0, rows, batch, head0, state);
    if (special_s == 0) {
        return;
    }
    clear_sums();
    for (uint key0 = 0; key0 < end; key0 += TILE) {
        score_tile(k_from, key0, end);
        barrier();
        weigh_special(state, key0);
        barrier();
        add_special(v_from, key0, end);
    }
    store_special(row0, rows, batch, head0);
}
