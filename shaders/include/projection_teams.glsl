// For projection.comp: its teams of LANES lanes, each of which works on one
// slice of ROWS rows. With SUBGROUP, a subgroup consists of one team or several.
#ifndef PROJECTION_TEAMS_GLSL
#define PROJECTION_TEAMS_GLSL

#ifdef SUBGROUP

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

// The sum over the lanes of a team; every lane gets it.
float team_sum(float v) {
    [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        v += subgroupShuffleXor(v, bit);
    }
    return v;
}

#else

uint thread_index() { return gl_LocalInvocationIndex; }

shared float team_values[SLOTS * ABREAST * LANES];

// Called by all threads together; it adds in the same order as the other form.
float team_sum(float v) {
    [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        team_values[thread_index()] = v;
        barrier();
        v += team_values[thread_index() ^ bit];
        barrier();
    }
    return v;
}

#endif

const uint THREADS = SLOTS * ABREAST * LANES;

uint lane() { return thread_index() % LANES; }
uint team() { return thread_index() / LANES; }
uint slot() { return team() / ABREAST; }

#endif
