// A workgroup divided into slots of lanes that work on one result together.
// With SUBGROUP a slot is a subgroup, whatever its size; without it, LANES
// adjacent threads, which add up through shared memory.
//
// Before the include: SLOT_SPEC, the specialization constant LANES.
#ifndef SLOTS_GLSL
#define SLOTS_GLSL

layout(constant_id = SLOT_SPEC) const uint LANES = 32;

#ifdef SUBGROUP

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

uint slot_lane() { return gl_SubgroupInvocationID; }
uint slot_lanes() { return gl_SubgroupSize; }
uint slot_index() { return gl_SubgroupID; }
uint slot_count() { return gl_NumSubgroups; }

// The sum over the lanes of a slot. Called by all threads together; every lane
// gets the result.
float slot_sum(float v) { return subgroupAdd(v); }

#else

uint slot_lane() { return gl_LocalInvocationIndex % LANES; }
uint slot_lanes() { return LANES; }
uint slot_index() { return gl_LocalInvocationIndex / LANES; }
uint slot_count() { return gl_WorkGroupSize.x / LANES; }

shared float slot_values[256]; // without subgroups, workgroups have at most that many threads

float slot_sum(float v) {
    slot_values[gl_LocalInvocationIndex] = v;
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < LANES; i++) {
        sum += slot_values[slot_index() * LANES + i];
    }
    barrier();
    return sum;
}

#endif
#endif
