// Combines updates with the elements of out at their places. For each place, the
// thread of its first update does the work, in the order of the updates: it
// follows the chain that scatter_chain has made, or else goes through the indices
// up to the last one. TEAM threads share the latter, each every TEAM-th index, and
// add up in a tree. So the order of sums depends on the indices alone, not on the
// order in which threads run.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, updates, 1)
layout(set = 0, binding = 1) readonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 2) readonly buffer Marks { uint marks[]; };
TENSOR_INOUT(3, y, 2)
QUAD_BITS_IN(0, updates)
QUAD_BITS_INOUT(3, y)
layout(set = 0, binding = 4) readonly buffer Next { uint next[]; }; // CHAINED
layout(constant_id = 3) const uint SIGNED_INDICES = 1; // int32 indices
layout(constant_id = 4) const uint ALONG = 0;
layout(constant_id = 5) const uint MODE = SCATTER_SET;
layout(constant_id = 6) const uint TEAM = 1; // a power of two, at most the workgroup
layout(constant_id = 7) const uint CHAINED = 0;
layout(constant_id = 8) const uint QUADS = 0; // with it, n, post and offsets of elements count quads; TEAM is 1
layout(push_constant) uniform Push { ScatterParams p; };

#include "scatter.glsl"

shared uint partial[256]; // the largest workgroup

// Intermediate values: the bits of a float32, or an integer.
uint widen(uint bits) { return is_float_dtype(y_DT) ? floatBitsToUint(bits_to_float(bits, y_DT)) : bits; }

uint narrow(uint v) {
    if (is_float_dtype(y_DT)) {
        return float_to_bits(uintBitsToFloat(v), y_DT);
    }
    return y_DT == DT_BOOL ? uint(v != 0u) : y_DT == DT_UINT8 ? v & 0xffu : v;
}

// The neutral element of a combination.
uint neutral() {
    bool floats = is_float_dtype(y_DT);
    switch (MODE) {
    case SCATTER_ADD: return floats ? 0x80000000u : 0u; // -0
    case SCATTER_MUL: return floats ? 0x3f800000u : 1u;
    case SCATTER_MIN: return floats ? INF_BITS : y_DT == DT_INT32 ? 0x7fffffffu : 0xffffffffu;
    default: return floats ? 0xff800000u : y_DT == DT_INT32 ? 0x80000000u : 0u;
    }
}

uint combine_floats(uint a, uint b) {
    float u = uintBitsToFloat(a);
    float v = uintBitsToFloat(b);
    switch (MODE) {
    case SCATTER_ADD: return floatBitsToUint(u + v);
    case SCATTER_MUL: return floatBitsToUint(u * v);
    }
    if (is_nan(u) || is_nan(v)) {
        return is_nan(u) ? a : b;
    }
    bool less = order_key(b, DT_FLOAT32) < order_key(a, DT_FLOAT32);
    bool more = order_key(b, DT_FLOAT32) > order_key(a, DT_FLOAT32);
    return (MODE == SCATTER_MIN ? less : more) ? b : a;
}

uint combine(uint a, uint b) {
    if (is_float_dtype(y_DT)) {
        return combine_floats(a, b);
    }
    uint flip = y_DT == DT_INT32 ? 0x80000000u : 0u;
    switch (MODE) {
    case SCATTER_ADD: return a + b;
    case SCATTER_MUL: return a * b;
    case SCATTER_MIN: return (b ^ flip) < (a ^ flip) ? b : a;
    default: return (b ^ flip) > (a ^ flip) ? b : a;
    }
}

// An element, or with QUADS four neighbours.
uvec4 update_at(Update u, uint number) {
    uint at = p.updates_offset + (u.pre * p.count + number) * p.post + u.post;
    return QUADS != 0u ? updates_quad_bits(4u * at) : uvec4(updates_bits(at));
}

uvec4 load(uint at) { return QUADS != 0u ? y_quad_bits(4u * at) : uvec4(y_bits(at)); }

void store(uint at, uvec4 bits) {
    if (QUADS != 0u) {
        y_set_quad_bits(4u * at, bits);
    } else {
        y_set_bits(at, bits.x);
    }
}

const uint WIDTH = QUADS != 0u ? 4u : 1u;

uvec4 widen(uvec4 v) {
    for (uint i = 0u; i < WIDTH; i++) {
        v[i] = widen(v[i]);
    }
    return v;
}

uvec4 narrow(uvec4 v) {
    for (uint i = 0u; i < WIDTH; i++) {
        v[i] = narrow(v[i]);
    }
    return v;
}

uvec4 combine(uvec4 a, uvec4 b) {
    for (uint i = 0u; i < WIDTH; i++) {
        a[i] = combine(a[i], b[i]);
    }
    return a;
}

void main() {
    uint width = gl_WorkGroupSize.x / TEAM;
    uint lane = gl_LocalInvocationID.x % width;
    uint member = gl_LocalInvocationID.x / width;
    uint e = workgroup_index() * width + lane;
    bool mine = e < p.n;
    Update u = locate(mine ? e : 0u, p.post);
    uint place = mine ? resolve(indices[index_at(u, u.number)]) : p.places;
    mine = place < p.places;
    uint mark = mark_at(u, mine ? place : 0u);
    uint first = mine ? ~marks[mark] : 0u;
    uint last = mine ? marks[mark + 1u] - 1u : 0u;
    uint to = p.out_offset + (u.pre * p.places + place) * p.post + u.post;
    mine = mine && u.number == (MODE == SCATTER_SET ? last : first);

    if (MODE == SCATTER_SET) {
        if (mine) {
            store(to, update_at(u, u.number));
        }
        return;
    }
    uvec4 v = uvec4(neutral());
    if (mine) {
        if (member == 0u) {
            v = widen(load(to));
        }
        if (CHAINED != 0u) {
            for (uint k = first; k != last; k = next[k]) {
                v = combine(v, widen(update_at(u, k)));
            }
            v = combine(v, widen(update_at(u, last)));
        }
        for (uint k = first + member; CHAINED == 0u && k <= last; k += TEAM) {
            if (resolve(indices[index_at(u, k)]) == place) {
                v = combine(v, widen(update_at(u, k)));
            }
        }
    }
    for (uint half_team = TEAM / 2u; half_team > 0u; half_team /= 2u) {
        partial[gl_LocalInvocationID.x] = v.x;
        barrier();
        if (member < half_team) {
            v.x = combine(v.x, partial[gl_LocalInvocationID.x + half_team * width]);
        }
        barrier();
    }
    if (mine && member == 0u) {
        store(to, narrow(v));
    }
}
