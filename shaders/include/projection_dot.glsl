// For projection.comp: the products of a unit of 32 codes of each stream with x.
#ifndef PROJECTION_DOT_GLSL
#define PROJECTION_DOT_GLSL

float acc[KEPT]; // of kept_stream(i)

// The code at bit `at` of v as a float, without a conversion: it is put into
// the mantissa of a power of two whose lowest bits have the code's weight.
float code(uint v, uint at) {
    uint base = (150u - at) << 23; // 2^(23 - at)
    return uintBitsToFloat((v & (((1u << BITS) - 1u) << at)) | base) - uintBitsToFloat(base);
}

// Codes 4j to 4j + 3 of the unit whose words start at `from`.
vec4 codes(uint from, uint j) {
    if (BITS == 4) {
        uint v = words[from + (j >> 1)] >> (16u * (j & 1u));
        return vec4(code(v, 0), code(v, 4), code(v, 8), code(v, 12));
    }
    vec4 c;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint bit = (4 * j + i) * BITS;
        uint v = words[from + (bit >> 5)] >> (bit & 31u);
        if ((bit & 31u) + BITS > 32u) {
            v |= words[from + min((bit >> 5) + 1, BITS - 1)] << (32u - (bit & 31u));
        }
        c[i] = code(v, 0);
    }
    return c;
}

// The same for the small floats of the modes without biases.
vec4 small_floats(uint from, uint j) {
    vec4 c;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint bit = (4 * j + i) * BITS;
        uint v = words[from + min(bit >> 5, BITS - 1)] >> (bit & 31u);
        c[i] = BITS == 4 ? e2m1_to_float(v & 15u) : e4m3_to_float(v & 255u);
    }
    return c;
}

// Adds the products of quads first to first + 3 of a unit to sum.
float dot_floats(uint from, uint first, float sum) {
    [[unroll]] for (uint j = first; j < first + 4; j++) {
        vec4 v = uintBitsToFloat(held_x[min(j, X_QUADS - 1)]);
        vec4 c = SMALL_FLOATS ? small_floats(from, j) : codes(from, j);
        sum = fma(c.w, v.w, fma(c.z, v.z, fma(c.y, v.y, fma(c.x, v.x, sum))));
    }
    return sum;
}

// The product of a unit of small floats; with two scales, each half has its own.
float small_result(uint from, uvec2 scales) {
    float first = dot_floats(from, 0, 0.0);
    if (HALVES != 2) {
        return loaded_scale(scales.x) * dot_floats(from, 4, first);
    }
    precise float sum = loaded_scale(scales.x) * first;
    return fma(loaded_scale(scales.y), dot_floats(from, 4, 0.0), sum);
}

float affine_result(uint from, float scale, float bias) {
    return unit_result(dot_floats(from, 4, dot_floats(from, 0, 0.0)), scale, bias, held_stats.x);
}

#ifdef DOT8
// Adds the products of half of a unit with the three digits of x, the lowest first.
void add_products(uint from, uint half_unit, inout ivec3 sums) {
    uvec4 c;
    if (BITS == 4) {
        c = nibble_bytes(uvec2(words[from + 2 * half_unit], words[from + 2 * half_unit + 1]));
    } else {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            c[i] = BITS == 8 ? words[from + min(4 * half_unit + i, BITS - 1)] : FOUR_CODES(words, from, 4 * half_unit + i);
        }
        c = BITS == 8 ? byte_bytes(c) : c;
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        if (BITS != 8 && !SMALL_FLOATS) {
            sums.x += int(dot_unsigned(c[i], held_x[half_unit][i], 0));
            sums.y += int(dot_unsigned(c[i], held_x[2 + half_unit][i], 0));
        } else {
            sums.x += dot_mixed(c[i], held_x[half_unit][i], 0);
            sums.y += dot_mixed(c[i], held_x[2 + half_unit][i], 0);
        }
        sums.z += dot_signed(c[i], held_x[4 + half_unit][i], 0);
    }
}

float products(ivec3 sums) { return held_stats.y * code_sum(sums.z, sums.x + (sums.y << 8)); }

// The product of a unit, given its scale and bias, or both scales.
float integer_result(uint from, float scale, float bias) {
    ivec3 sums = ivec3(0);
    add_products(from, 0, sums);
    vec2 factors_of_first = byte_factors(scale, bias);
    if (HALVES != 2) {
        add_products(from, 1, sums);
        return unit_product(products(sums), factors_of_first.x, factors_of_first.y, held_stats.x);
    }
    float first = unit_product(products(sums), factors_of_first.x, factors_of_first.y, held_stats.x);
    sums = ivec3(0);
    add_products(from, 1, sums);
    return fma(byte_factors(bias, 0.0).x, products(sums), first);
}

// Exchanges of sums, as in stream_sum.
#define EXCHANGE_INTEGERS(sums, bit) \
    if (SPAN > bit && STREAMS > bit) { \
        bool upper = (lane() & bit) != 0; \
        [[unroll]] for (uint i = 0; i < STREAMS / (2 * bit); i++) { \
            int kept = upper ? sums[2 * i + 1] : sums[2 * i]; \
            int given = upper ? sums[2 * i] : sums[2 * i + 1]; \
            sums[i] = kept + subgroupShuffleXor(given, bit); \
        } \
    } else if (SPAN > bit) { \
        sums[0] += subgroupShuffleXor(sums[0], bit); \
    }

// The products of a span of several units.
void multiply_span(uint held, uint slice) {
    bool exists = EVEN || slice * LANES + lane() < UNITS;
    int sums[STREAMS];
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        ivec3 by_digits = ivec3(held_start, 0, 0);
        uint from = (held * STREAMS + s) * BITS;
        add_products(from, 0, by_digits);
        add_products(from, 1, by_digits);
        sums[s] = (by_digits.z << 16) + by_digits.x + (by_digits.y << 8);
    }
    EXCHANGE_INTEGERS(sums, 1)
    EXCHANGE_INTEGERS(sums, 2)
    [[unroll]] for (uint k = 0; k < KEPT; k++) {
        uvec2 bits = affine[held * KEPT + k];
        if (PAIR && !ONE_PAIR) { // by masks, without a branch
            uvec2 second = uvec2(kept_stream(k) >= ROWS ? 0xffffffffu : 0u);
            bits = (bits & ~second) | (second_affine[held * KEPT + k] & second);
        }
        vec2 by = byte_factors(affine_float(bits.x, slice, scales_DT), affine_float(bits.y, slice, biases_DT));
        acc[k] = exists ? unit_product(held_stats.y * float(sums[k]), by.x, by.y, held_stats.x) : 0.0;
    }
}
#endif

// The lane's products of a buffer's content with its unit of x.
void multiply(uint held, uint slice) {
#ifdef DOT8
    if (SPAN > 1) {
        multiply_span(held, slice);
        return;
    }
#endif
    bool exists = EVEN || slice * LANES + lane() < UNITS;
    [[unroll]] for (uint s = 0; s < KEPT; s++) {
        uint from = (held * STREAMS + s) * BITS;
        uvec2 bits = PAIR && !ONE_PAIR && s >= ROWS ? second_affine[held * KEPT + s] : affine[held * KEPT + s];
        float sum;
        if (SMALL_FLOATS && !LIMBS) {
            sum = small_result(from, bits);
        } else {
            float scale = SMALL_FLOATS ? loaded_scale(bits.x) : affine_float(bits.x, slice, scales_DT);
            float other = SMALL_FLOATS ? loaded_scale(bits.y) : affine_float(bits.y, slice, biases_DT);
#ifdef DOT8
            sum = LIMBS ? integer_result(from, scale, other) : affine_result(from, scale, other);
#else
            sum = affine_result(from, scale, other);
#endif
        }
        acc[s] = exists ? sum : 0.0;
    }
}

// Adds up the lanes' products of all streams at once: lane s gets the sum of stream s. STREAMS, a power of two, is at
// most a chunk's units.
#ifdef SUBGROUP
float stream_sum() {
    [[unroll]] for (uint bit = SPAN; bit < STREAMS; bit *= 2) {
        bool upper = (lane() & bit) != 0;
        [[unroll]] for (uint i = 0; i < STREAMS / (2 * bit); i++) {
            float kept = upper ? acc[2 * i + 1] : acc[2 * i];
            float given = upper ? acc[2 * i] : acc[2 * i + 1];
            acc[i] = kept + subgroupShuffleXor(given, bit);
        }
    }
    return row_sum(acc[0], max(SPAN, STREAMS));
}
#else
float stream_sum() {
    float mine = 0.0;
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        float sum = row_sum(acc[s], 1);
        mine = lane() == s ? sum : mine;
    }
    return mine;
}
#endif

#endif
