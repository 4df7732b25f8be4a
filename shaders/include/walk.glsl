// Elementwise kernels: a thread strides over the elements of a joint layout of
// RANK axes (a specialization constant, so that the loop unrolls; rank 1 needs
// no division).
//
//   layout(push_constant) uniform Push { Walk2Params p; };
//   layout(constant_id = 3) const uint RANK = 1;
//   #define WALK_ARRAYS 2
//   #include "walk.glsl"
//   ELEMENTS(i) { uvec2 at = walk(i); ... }
#ifndef WALK_GLSL
#define WALK_GLSL

layout(local_size_x_id = 0) in; // before any use of gl_WorkGroupSize

// Few iterations each: kpx::grid_elements launches enough threads.
#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

#if WALK_ARRAYS == 2
#define WALK_VEC uvec2
#define WALK_OFFSETS uvec2(p.in_offset, p.out_offset)
#define WALK_STRIDES(d) uvec2(p.in_strides[d], p.out_strides[d])
#elif WALK_ARRAYS == 4
#define WALK_VEC uvec4
#define WALK_OFFSETS uvec4(p.c_offset, p.a_offset, p.b_offset, p.out_offset)
#define WALK_STRIDES(d) uvec4(p.c_strides[d], p.a_strides[d], p.b_strides[d], p.out_strides[d])
#else
#define WALK_VEC uvec3
#define WALK_OFFSETS uvec3(p.a_offset, p.b_offset, p.out_offset)
#define WALK_STRIDES(d) uvec3(p.a_strides[d], p.b_strides[d], p.out_strides[d])
#endif

// Where element i is in each array: (in, out), (a, b, out) or (condition, a, b, out).
WALK_VEC walk(uint i) {
    WALK_VEC at = WALK_OFFSETS;
    for (uint d = RANK - 1u; d > 0u; d--) {
        uint q = i / p.shape[d];
        at += (i - q * p.shape[d]) * WALK_STRIDES(d);
        i = q;
    }
    return at + i * WALK_STRIDES(0);
}

#endif
