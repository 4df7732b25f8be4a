// For projection.comp: its teams of LANES lanes, each of which works on one
// slice of ROWS rows. With SUBGROUP, a subgroup consists of one team or several.
#ifndef PROJECTION_TEAMS_GLSL
#define PROJECTION_TEAMS_GLSL

#ifdef SUBGROUP

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

float from_lane(float v, uint bits) { return subgroupShuffleXor(v, bits); }

#else

uint thread_index() { return gl_LocalInvocationIndex; }

shared float team_values[SLOTS * ABREAST * LANES];

// Called by all threads together.
float from_lane(float v, uint bits) {
    team_values[thread_index()] = v;
    barrier();
    float other = team_values[thread_index() ^ bits];
    barrier();
    return other;
}

#endif

// from_lane returns the v of the lane whose number differs in those bits.

// The sum over the lanes of a team; every lane gets it.
float team_sum(float v) {
    [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        v += from_lane(v, bit);
    }
    return v;
}

// The sum of a row of w over the lanes of a team, in the order of projection_sums.glsl; only the first four lanes get
// it. Every `added` neighbouring lanes have already been added up.
float row_sum(float v, uint added) {
    [[unroll]] for (uint bit = added; bit < CHUNK_UNITS; bit *= 2) {
        v += from_lane(v, bit);
    }
    float chunk_sum = v;
    [[unroll]] for (uint lane = CHUNK_UNITS; lane < min(LANES, PART_UNITS); lane += CHUNK_UNITS) {
        v += from_lane(chunk_sum, lane);
    }
    [[unroll]] for (uint bit = PART_UNITS; bit < LANES; bit *= 2) {
        v += from_lane(v, bit);
    }
    return v;
}

const uint THREADS = SLOTS * ABREAST * LANES;

uint lane() { return thread_index() % LANES; }
uint team() { return thread_index() / LANES; }
uint slot() { return team() / ABREAST; }

#endif
