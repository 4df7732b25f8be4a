// Elementwise kernels: a thread strides over the elements of a joint layout of
// RANK axes (a specialization constant, so that the loop unrolls; rank 1 needs
// no division).
//
//   layout(push_constant) uniform Push { Walk2Params p; };
//   layout(constant_id = 3) const uint RANK = 1;
//   #define WALK_ARRAYS 2 // 0: only ELEMENTS and BATCHES
//   #include "walk.glsl"
//   ELEMENTS(i) { uvec2 at = walk(i); ... }
#ifndef WALK_GLSL
#define WALK_GLSL

layout(local_size_x_id = 0) in; // before any use of gl_WorkGroupSize

// One at a time, with few iterations each: kpx::grid_elements launches enough threads.
#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

#ifdef WALK_BATCH
#extension GL_EXT_control_flow_attributes : require

// WALK_BATCH at a time, a workgroup's width apart. A kernel loads all of them before it stores the first: the compiler
// must assume that a store changes what is loaded after it, and a device needs many loads in flight.
//
//   BATCHES(first) {
//       uvec4 to;
//       EACH(k) { uvec2 at = walk(batch_item(first, k)); to[k] = at.y; ... }
//       EACH(k) if (in_batch(first, k)) { ... }
//   }
#define BATCHES(first) \
    for (uint first = gl_WorkGroupID.x * (gl_WorkGroupSize.x * WALK_BATCH) + gl_LocalInvocationID.x; first < p.n; \
         first += gl_NumWorkGroups.x * gl_WorkGroupSize.x * WALK_BATCH)
#define EACH(k) [[unroll]] for (uint k = 0u; k < WALK_BATCH; k++)
#define MAX_BATCH 4 // Words of a batch are a uvec4: glslang 11 gives uint[4] the layout of a parameter block's array.

// Elements of an item, for kernels whose items may be quads (QUADS, one of their specialization constants). A loop over
// them keeps one copy of the arithmetic in the SPIR-V, which drivers compile again for each pipeline.
#define WIDTH (QUADS == 0u ? 1u : 4u)

// Input i of a walk, and its output. An input with only one element for each quad still counts elements.
#define WALK_IN(slot, name, i) \
    QUAD_BITS_IN(slot, name) \
    uvec4 name##_item(uint at) { \
        if (QUADS == 0u || (QUADS & (QUADS_SINGLE_A << i)) != 0u) { \
            return uvec4(name##_bits(at)); \
        } \
        return name##_quad_bits(4u * at); \
    }
#define WALK_OUT(slot, name) \
    QUAD_BITS_OUT(slot, name) \
    void name##_set_item(uint at, uvec4 v) { \
        if (QUADS == 0u) { \
            name##_set_bits(at, v.x); \
        } else { \
            name##_set_quad_bits(4u * at, v); \
        } \
    }

// The body of a kernel with the inputs a, or a and b, …: y = f(a, …) on the elements' bits.
#define WALK_EACH(out_name, last, LOADS, result) \
    BATCHES(first) { \
        uvec4 to; /* not uint to[4]: see MAX_BATCH */ \
        EACH(k) { \
            WALK_VEC at = walk(batch_item(first, k)); \
            to[k] = at.last; \
            LOADS \
        } \
        EACH(k) { \
            if (!in_batch(first, k)) { \
                continue; \
            } \
            uvec4 v; \
            for (uint i = 0u; i < WIDTH; i++) { \
                v[i] = result; \
            } \
            out_name##_set_item(to[k], v); \
        } \
    }
#define WALK_1(out_name, f, a) \
    void main() { \
        uvec4 a_items[MAX_BATCH]; \
        WALK_EACH(out_name, y, a_items[k] = a##_item(at.x);, f(a_items[k][i])) \
    }
#define WALK_2(out_name, f, a, b) \
    void main() { \
        uvec4 a_items[MAX_BATCH], b_items[MAX_BATCH]; \
        WALK_EACH(out_name, z, a_items[k] = a##_item(at.x); b_items[k] = b##_item(at.y);, f(a_items[k][i], b_items[k][i])) \
    }
#define WALK_3(out_name, f, a, b, c) \
    void main() { \
        uvec4 a_items[MAX_BATCH], b_items[MAX_BATCH], c_items[MAX_BATCH]; \
        WALK_EACH(out_name, w, a_items[k] = a##_item(at.x); b_items[k] = b##_item(at.y); c_items[k] = c##_item(at.z);, \
                  f(a_items[k][i], b_items[k][i], c_items[k][i])) \
    }

// Beyond the end it is the last one, so that loads need no branch.
uint batch_item(uint first, uint k) { return min(first + k * gl_WorkGroupSize.x, p.n - 1u); }
bool in_batch(uint first, uint k) { return k == 0u || first + k * gl_WorkGroupSize.x < p.n; }
#endif

#if WALK_ARRAYS > 0
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
#endif
