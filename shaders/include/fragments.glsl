// Cooperative matrices whose elements lanes make in their own registers. Vulkan leaves it to drivers which elements of a
// matrix a lane has, and in which order; here they are where NVIDIA's driver has them. With g = lane / 4 and
// t = lane % 4, a lane has:
//
//   of weights, 16 by 16   0, 1: columns 2t, 2t + 1 of row g; 2, 3: columns 2t + 8, 2t + 9; 4 to 7: the same of row g + 8
//   of x, 16 by 8          0, 1: rows 2t, 2t + 1 of column g; 2, 3: rows 2t + 8, 2t + 9
//   of sums, 16 by 8       0, 1: columns 2t, 2t + 1 of row g; 2, 3: the same of row g + 8
//
// fragment_check.comp finds out whether a device does so, and whether its sums are exact.
#ifndef FRAGMENTS_GLSL
#define FRAGMENTS_GLSL

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require

#define WEIGHTS coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define DIGITS coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>

#define SET_PAIR(matrix_, i, pair) \
    { \
        f16vec2 two_ = unpackFloat2x16(pair); \
        matrix_[i] = two_.x; \
        matrix_[(i) + 1] = two_.y; \
    }

// Sets all elements of a lane, two in a word.
void set_weights(inout WEIGHTS w, uint upper_left, uint upper_right, uint lower_left, uint lower_right) {
    SET_PAIR(w, 0, upper_left)
    SET_PAIR(w, 2, upper_right)
    SET_PAIR(w, 4, lower_left)
    SET_PAIR(w, 6, lower_right)
}

void set_digits(inout DIGITS x, uvec2 pairs) {
    SET_PAIR(x, 0, pairs.x)
    SET_PAIR(x, 2, pairs.y)
}

// a times b plus c. The words of a are upper left, lower left, upper right and lower right, as tensor cores take them.
vec4 mul_add(uvec4 a, uvec2 b, vec4 c) {
    WEIGHTS x;
    DIGITS y;
    SUMS z;
    set_weights(x, a.x, a.z, a.y, a.w);
    set_digits(y, b);
    [[unroll]] for (uint e = 0; e < 4; e++) {
        z[e] = c[e];
    }
    z = coopMatMulAdd(x, y, z);
    return vec4(z[0], z[1], z[2], z[3]);
}

#endif
