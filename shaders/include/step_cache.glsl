// Part of attention_step: loads chunks of the cache of keys and values into registers, and writes the new token into
// it.
#ifndef STEP_CACHE_GLSL
#define STEP_CACHE_GLSL

uvec4 k_raw[K_QUADS];
uvec4 v_raw[V_KEYS];

uint key_quad(uint i) { return thread % K_LANES + i * K_LANES; }
uint value_quad() { return thread % V_LANES; }
uint value_key(uint i) { return thread / V_LANES * V_KEYS + i; } // of the chunk

vec4 quad_of_bits(uvec4 raw) {
    if (DT == DT_FLOAT32) {
        return uintBitsToFloat(raw);
    }
    return vec4(bits_to_float(raw.x & 0xffffu, DT), bits_to_float(raw.x >> 16, DT),
                bits_to_float(raw.y & 0xffffu, DT), bits_to_float(raw.y >> 16, DT));
}

uint half_bits(float low, float high) { return float_to_bits(low, DT) | (float_to_bits(high, DT) << 16); }

uint key_row(uint key) { return (p.keys_offset + kv_head * p.keys_strides[0] + key * p.keys_strides[1]) / 4; }
uint value_row(uint key) { return (p.values_offset + kv_head * p.values_strides[0] + key * p.values_strides[1]) / 4; }

// Loads keys first..first+CHUNK-1. A key at or past end, or `skipped`, is replaced by
// some other key, whose result is never used.
uint loaded_key(uint key, uint end, uint skipped) {
    key = min(key, max(end, 1u) - 1u);
    return SHARE != 1 && key == skipped ? (key != 0 ? key - 1 : min(1u, p.capacity - 1)) : key;
}

void load_keys(uint first, uint end, uint skipped) {
    uint k_from = key_row(loaded_key(first + thread / K_LANES, end, skipped));
    [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
        uint at = k_from + (K_EVEN ? key_quad(i) : min(key_quad(i), QUADS - 1));
        k_raw[i] = DT == DT_FLOAT32 ? keys_32[at] : uvec4(keys_16[at], 0, 0);
    }
}

void load_values(uint first, uint end, uint skipped) {
    uint quad = V_EVEN ? value_quad() : min(value_quad(), QUADS - 1);
    [[unroll]] for (uint i = 0; i < V_KEYS; i++) {
        uint at = value_row(loaded_key(first + value_key(i), end, skipped)) + quad;
        v_raw[i] = DT == DT_FLOAT32 ? values_32[at] : uvec4(values_16[at], 0, 0);
    }
}

void load_chunk(uint first, uint end, uint skipped) {
    load_keys(first, end, skipped);
    load_values(first, end, skipped);
}

void store_new(uint key) {
    if (thread >= 2 * QUADS) {
        return;
    }
    bool is_value = thread >= QUADS;
    uint at = (is_value ? value_row(key) - QUADS : key_row(key)) + thread;
    vec4 quad = heads_s[HEADS * QUADS + thread];
    if (DT == DT_FLOAT32) {
        uvec4 bits = floatBitsToUint(quad);
        if (is_value) {
            values_32[at] = bits;
        } else {
            keys_32[at] = bits;
        }
        return;
    }
    uvec2 bits = uvec2(half_bits(quad.x, quad.y), half_bits(quad.z, quad.w));
    if (is_value) {
        values_16[at] = bits;
    } else {
        keys_16[at] = bits;
    }
}

#endif
