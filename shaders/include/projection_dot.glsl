// For projection.comp: the products of a unit of 32 codes of each stream with x.
#ifndef PROJECTION_DOT_GLSL
#define PROJECTION_DOT_GLSL

float acc[STREAMS];

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

float small_scale(uint code) { return HALVES == 2 ? e4m3_to_float(code) : uintBitsToFloat(e8m0_bits(code)); }

// The product of a unit of small floats; with two scales, each half has its own.
float small_result(uint from, uvec2 scales) {
    float first = dot_floats(from, 0, 0.0);
    if (HALVES != 2) {
        return small_scale(scales.x) * dot_floats(from, 4, first);
    }
    precise float sum = small_scale(scales.x) * first;
    return fma(small_scale(scales.y), dot_floats(from, 4, 0.0), sum);
}

#ifdef DOT8
float dot_integers(uint from) {
    uint low = 0, middle = 0;
    int high = 0;
    [[unroll]] for (uint half_unit = 0; half_unit < 2; half_unit++) {
        uvec2 w = uvec2(words[from + 2 * half_unit], words[from + 2 * half_unit + 1]);
        uvec4 c = uvec4(w.x, w.x >> 4, w.y, w.y >> 4) & 0x0f0f0f0fu;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            low += dot_unsigned(c[i], held_x[half_unit][i], 0);
            middle += dot_unsigned(c[i], held_x[2 + half_unit][i], 0);
            high += dot_signed(c[i], held_x[4 + half_unit][i], 0);
        }
    }
    return float(int(low) + (int(middle) << 8) + (high << 16));
}
#endif

// The lane's products of a buffer's content with its unit of x.
void multiply(uint held, uint slice) {
    bool exists = EVEN || slice * LANES + lane() < UNITS;
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        uint from = (held * STREAMS + s) * BITS;
        uvec2 bits = affine[held * STREAMS + s];
        if (SMALL_FLOATS) {
            float small = small_result(from, bits);
            acc[s] = exists ? small : 0.0;
            continue;
        }
#ifdef DOT8
        float sum = LIMBS ? held_stats.y * dot_integers(from) : dot_floats(from, 4, dot_floats(from, 0, 0.0));
#else
        float sum = dot_floats(from, 4, dot_floats(from, 0, 0.0));
#endif
        sum = unit_result(sum, affine_float(bits.x, slice, scales_DT), affine_float(bits.y, slice, biases_DT), held_stats.x);
        acc[s] = exists ? sum : 0.0;
    }
}

// Adds up the lanes' products of all streams at once: lane s (and those that differ
// from it in higher bits only) gets the sum of stream s. STREAMS is a power of two.
#ifdef SUBGROUP
float stream_sum() {
    [[unroll]] for (uint bit = 1; bit < STREAMS; bit *= 2) {
        bool upper = (lane() & bit) != 0;
        [[unroll]] for (uint i = 0; i < STREAMS / (2 * bit); i++) {
            float kept = upper ? acc[2 * i + 1] : acc[2 * i];
            float given = upper ? acc[2 * i] : acc[2 * i + 1];
            acc[i] = kept + subgroupShuffleXor(given, bit);
        }
    }
    float sum = acc[0];
    [[unroll]] for (uint bit = STREAMS; bit < LANES; bit *= 2) {
        sum += subgroupShuffleXor(sum, bit);
    }
    return sum;
}
#else
float stream_sum() {
    float mine = 0.0;
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        float sum = team_sum(acc[s]);
        mine = lane() == s ? sum : mine;
    }
    return mine;
}
#endif

#endif
