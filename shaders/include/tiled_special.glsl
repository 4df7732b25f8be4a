// What sdpa_tiled does about values that are not finite, if there are any, after all others: it goes through the keys
// again, and adds up only these. Threads share the scores, so that this takes no more rounds than before.
#ifndef TILED_SPECIAL_GLSL
#define TILED_SPECIAL_GLSL

const float HIDDEN_KEY = -1.0; // in place of a weight

// Turns the tile's scores into their final weights; those of keys that a row does not see into HIDDEN_KEY.
void weigh_special(Row row, uint key0) {
    uint r = gl_LocalInvocationIndex % TILE;
    for (uint j = gl_LocalInvocationIndex / TILE; j < TILE; j += PARTS) {
        float weight = HIDDEN_KEY;
        if (key0 + j < row.end) {
            float bias = key_bias(row.mask_from, key0 + j);
            weight = bias != LOWEST ? exp2(scores[j * PITCH + r / 4][r & 3u] + bias - row.highest) : weight;
        }
        scores[j * PITCH + r / 4][r & 3u] = weight;
    }
}

// Adds the tile's values that are not finite, by their weights, to those rows that see their keys.
void add_special(uint v_from, uint key0, uint end) {
    [[unroll]] for (uint t = 0; t < DV_TILES; t++) {
        [[dont_unroll]] for (uint j = 0; j < TILE; j += 4) {
            [[unroll]] for (uint i = 0; i < 4; i++) {
                uint key = key0 + j + i;
                vec4 value = key < end ? load_v(v_from + key * p.v_strides[2], t * TILE + tile_col() * 4) : vec4(0.0);
                bvec4 special = not_finite(value);
                vec4 weights = scores[(j + i) * PITCH + gl_LocalInvocationIndex / 16];
                [[unroll]] for (uint r = 0; r < 4; r++) {
                    bvec4 seen = bvec4(uvec4(special) * uint(weights[r] != HIDDEN_KEY));
                    acc[r][t] += mix(vec4(0.0), weights[r] * value, seen);
                }
            }
        }
    }
}

// Replaces the elements of the thread's block to which values that are not finite contribute. Called by all threads
// together.
void store_special(uint row0, uint rows, uint batch, uint head0) {
    [[unroll]] for (uint r = 0; r < 4; r++) {
        uint row = row0 + tile_row(r);
        float factor = row_factor(tile_row(r));
        uint to = row < rows ? result_of(row, batch, head0) : 0;
        [[unroll]] for (uint t = 0; t < DV_TILES; t++) {
            [[unroll]] for (uint c = 0; c < 4; c++) {
                uint e = t * TILE + tile_col() * 4 + c;
                if (row < rows && e < p.dv && acc[r][t][c] != 0.0) {
                    y_store(to + e, acc[r][t][c] * factor);
                }
            }
        }
    }
}

#endif
