// Eight codes times their scale as pairs of float16, in the order of fragment_runs.glsl: the weights of
// quantized_matmul_fragments. Nothing is rounded, except with scales that quantized_scales.glsl flags;
// fragment_check.comp finds out whether that is true of a device.
#ifndef FRAGMENT_CODES_GLSL
#define FRAGMENT_CODES_GLSL

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// The word v, shifted such that bit 0 of a pair's first code is at bit n.
#define PAIR_0(n) (v << (n))
#define PAIR_1(n) (v << ((n) - 4))
#define PAIR_2(n) ((n) < 8 ? v >> (8 - (n)) : v << ((n) & 7))
#define PAIR_3(n) (v >> (12 - (n)))

uvec4 packed_pairs(f16vec2 a, f16vec2 b, f16vec2 c, f16vec2 d) {
    return uvec4(packFloat2x16(a), packFloat2x16(b), packFloat2x16(c), packFloat2x16(d));
}

// Codes of 4 bits minus 8: bits make 16 + code.
#define SUM_16(PAIR) unpackFloat2x16((PAIR(6) & 0x03c003c0u) | 0x4c004c00u)
uvec4 weights_of_integers(uint v, f16vec2 s) {
    f16vec2 offset = s * float16_t(-24.0);
    return packed_pairs(fma(SUM_16(PAIR_0), s, offset), fma(SUM_16(PAIR_1), s, offset), fma(SUM_16(PAIR_2), s, offset),
                        fma(SUM_16(PAIR_3), s, offset));
}

// E2M1 times 2^-14, of which 0 and 0.5 are zero and a subnormal number then.
#define E2M1(PAIR) unpackFloat2x16((PAIR(9) & 0x0e000e00u) | (PAIR(12) & 0x80008000u))
uvec4 weights_of_e2m1(uint v, f16vec2 s) {
    return packed_pairs(E2M1(PAIR_0) * s, E2M1(PAIR_1) * s, E2M1(PAIR_2) * s, E2M1(PAIR_3) * s);
}

// E4M3 times 2^-8. Magnitude 127 is NaN: adding 1 carries into an exponent of infinity.
f16vec2 e4m3(uint magnitudes, uint signs) {
    uint nan = (magnitudes + 0x00800080u) & 0x40004000u;
    return unpackFloat2x16(magnitudes | nan | (signs & 0x80008000u));
}
uvec4 weights_of_e4m3(uvec2 words, f16vec2 s) {
    uint v = words.x, u = words.y;
    return packed_pairs(e4m3((v << 7) & 0x3f803f80u, v << 8) * s, e4m3((v >> 1) & 0x3f803f80u, v) * s,
                        e4m3((u << 7) & 0x3f803f80u, u << 8) * s, e4m3((u >> 1) & 0x3f803f80u, u) * s);
}

#endif
