// Reductions over a workgroup; every thread gets the result. All threads must
// call them. The portable form is a tree in shared memory; with SUBGROUP, which
// needs arithmetic subgroup operations, two levels of these are used.
//
// The workgroup has at most REDUCE_THREADS threads, a power of two.
#ifndef WORKGROUP_REDUCE_GLSL
#define WORKGROUP_REDUCE_GLSL

#define REDUCE_THREADS 1024

// Before any use of gl_WorkGroupSize, which is silently 1 until then.
layout(local_size_x_id = 0) in;

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require

// One float per subgroup, of which there are at most REDUCE_THREADS.
shared float reduce_partial[REDUCE_THREADS];

#define WORKGROUP_REDUCE(name, subgroup_op, combine) \
    float name(float v) { \
        v = subgroup_op(v); \
        if (gl_NumSubgroups == 1u) { \
            return v; \
        } \
        barrier(); \
        if (gl_SubgroupInvocationID == 0u) { \
            reduce_partial[gl_SubgroupID] = v; \
        } \
        barrier(); \
        v = reduce_partial[0]; \
        for (uint k = 1u; k < gl_NumSubgroups; k++) { \
            v = combine(v, reduce_partial[k]); \
        } \
        return v; \
    }

#else

shared float reduce_partial[REDUCE_THREADS];

#define WORKGROUP_REDUCE(name, subgroup_op, combine) \
    float name(float v) { \
        uint t = gl_LocalInvocationID.x; \
        barrier(); \
        reduce_partial[t] = v; \
        for (uint k = gl_WorkGroupSize.x / 2u; k > 0u; k /= 2u) { \
            barrier(); \
            if (t < k) { \
                reduce_partial[t] = combine(reduce_partial[t], reduce_partial[t + k]); \
            } \
        } \
        barrier(); \
        return reduce_partial[0]; \
    }

#endif

float combine_add(float a, float b) { return a + b; }
float combine_max(float a, float b) { return max(a, b); }

WORKGROUP_REDUCE(workgroup_add, subgroupAdd, combine_add)
WORKGROUP_REDUCE(workgroup_max, subgroupMax, combine_max)

#endif
