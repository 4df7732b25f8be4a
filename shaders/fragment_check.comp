// Finds out whether the elements of matrices are where fragments.glsl puts them, and whether products of codes of 4
// bits with digits of x (fragment_digits.glsl) are summed exactly: codes are subnormal numbers, c * 2^-24 or 16 times
// that, and digits, at most 2048, are multiplied by 8 or by 0.5, so they are as large as any of projection_fragments.
// Each workgroup is a subgroup, and counts the sums of 128 products that differ from those of integers, and in a
// second counter codes times scales (fragment_codes.glsl) that are not exact. No op runs it.
//
// variants: narrow_subgroup_khr
// requires: float16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "fragments.glsl"
#include "fragment_codes.glsl"
#include "math.glsl"
#include "minifloat.glsl"
#include "types.h"

layout(local_size_x_id = 0) in; // 32
layout(set = 0, binding = 0) buffer Failures { uint failures[]; };
layout(push_constant) uniform Push { FragmentCheckParams p; };

// The last workgroups have large codes and digits of one sign, so that sums are large as well.
bool is_large() { return gl_WorkGroupID.x >= p.mixed; }

uint code(uint row, uint k) {
    uint mixed = (row * 7 + k * 3 + gl_WorkGroupID.x) % 16, large = 15 - (row + k + gl_WorkGroupID.x) % 2;
    return is_large() ? large : mixed;
}

int digit(uint k, uint column) {
    int mixed = int((k * 1031 + column * 977 + gl_WorkGroupID.x * 13) % 4097) - 2048;
    int large = 2048 - int((k * 5 + column * 3) % 2);
    return !is_large() ? mixed : gl_WorkGroupID.x % 2 == 0 ? large : -large;
}

// Two codes or digits of neighbouring columns or rows.
uint two_codes(uint row, uint k) { return code(row, k) | code(row, k + 1) << 16; }
uint two_digits(uint k, uint column, float by) {
    return packFloat2x16(f16vec2(vec2(float(digit(k, column)), float(digit(k + 1, column))) * by));
}

// A power of two for each workgroup, beginning with that of the smallest scale whose products float16 holds.
float power(int least, uint range) { return ldexp(1.0, least + int(gl_WorkGroupID.x % range)); }

bool same(float a, float b) { return a == b || (is_nan(a) && is_nan(b)); }

// Counts a failure if the pair of weights is not first and second times s.
void check_pair(uint pair, float first, float second, float s) {
    vec2 v = unpackHalf2x16(pair);
    if (!same(v.x, first * s) || !same(v.y, second * s)) {
        atomicAdd(failures[1], 1);
    }
}

void check_codes() {
    uint v = (gl_WorkGroupID.x * 32 + gl_SubgroupInvocationID) * 0x9e3779b9u, u = v ^ 0x7f0080ffu;
    float bits_of_8 = float(1 + v % 255), bits_of_4 = float(1 + v % 15);
    float s = bits_of_8 * power(-24, 28);
    uvec4 w = weights_of_integers(v, f16vec2(s));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        check_pair(w[i], float((v >> (4 * i)) & 15u) - 8.0, float((v >> (4 * i + 16)) & 15u) - 8.0, s);
    }
    s = bits_of_4 * power(-9, 21);
    w = weights_of_e2m1(v, f16vec2(s));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        check_pair(w[i], e2m1_to_float(v >> (4 * i)), e2m1_to_float(v >> (4 * i + 16)), s / 16384.0);
    }
    s = power(-7, 22);
    w = weights_of_e4m3(uvec2(v, u), f16vec2(s));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint word = i < 2 ? v : u;
        check_pair(w[i], e4m3_to_float((word >> (8 * (i & 1u))) & 255u),
                   e4m3_to_float((word >> (8 * (i & 1u) + 16)) & 255u), s / 256.0);
    }
}

void main() {
    check_codes();
    uint g = gl_SubgroupInvocationID / 4, t = gl_SubgroupInvocationID % 4;
    SUMS sums = SUMS(0.0);
    for (uint from = 0; from < 128; from += 16) {
        WEIGHTS w;
        DIGITS x;
        uint k = from + 2 * t;
        set_weights(w, two_codes(g, k), two_codes(g, k + 8) << 4, two_codes(g + 8, k), two_codes(g + 8, k + 8) << 4);
        set_digits(x, uvec2(two_digits(k, g, 8.0), two_digits(k + 8, g, 0.5)));
        sums = coopMatMulAdd(w, x, sums);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint row = g + i / 2 * 8, column = 2 * t + i % 2;
        int sum = 0;
        for (uint k = 0; k < 128; k++) {
            sum += int(code(row, k)) * digit(k, column);
        }
        if (sums[i] * 2097152.0 != float(sum)) { // 2^24 / 8
            atomicAdd(failures[0], 1);
        }
    }
}
