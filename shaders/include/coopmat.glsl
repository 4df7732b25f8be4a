// Cooperative matrices of 16 by 16 elements, float16 with float32 sums, which a
// subgroup holds together. One set of names over the two forms of the extension:
// COOPMAT_KHR, which every vendor has, and NVIDIA's own, which older compilers
// also support.
#ifndef COOPMAT_GLSL
#define COOPMAT_GLSL

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#ifdef COOPMAT_KHR
#extension GL_KHR_cooperative_matrix : require

#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define matrix_load(m, buf, at, stride) coopMatLoad(m, buf, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define matrix_load_columns(m, buf, at, stride) coopMatLoad(m, buf, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define matrix_store(m, buf, at, stride) coopMatStore(m, buf, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define matrix_mul_add(a, b, c) coopMatMulAdd(a, b, c)
#else
#extension GL_NV_cooperative_matrix : require

#define MATRIX_A fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MATRIX_B fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MATRIX_C fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define matrix_load(m, buf, at, stride) coopMatLoadNV(m, buf, at, stride, false)
#define matrix_load_columns(m, buf, at, stride) coopMatLoadNV(m, buf, at, stride, true)
#define matrix_store(m, buf, at, stride) coopMatStoreNV(m, buf, at, stride, false)
#define matrix_mul_add(a, b, c) coopMatMulAddNV(a, b, c)
#endif

const uint FRAGMENT = 16; // rows and columns of a matrix

#endif
