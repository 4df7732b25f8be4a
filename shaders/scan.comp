// Running sums or products along rows, one workgroup per row. In each block of
// columns a thread processes ITEMS neighbours, and the threads combine their
// results; a carry goes from block to block. The order depends on the row's
// length alone. Integers wrap around.
//
// variants: narrow_subgroup narrow base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
QUAD_BITS_IN(0, x)
QUAD_BITS_OUT(1, y)
layout(constant_id = 3) const uint KIND = SCAN_SUM;
layout(constant_id = 4) const uint EXCLUSIVE = 0;
layout(constant_id = 5) const uint REVERSE = 0;
layout(constant_id = 6) const uint QUADS = 0; // a thread's items are one load and one store; not with REVERSE
layout(push_constant) uniform Push { ScanParams p; };

#define ITEMS 4

bool floats() { return is_float_dtype(x_DT); }

uint nothing() {
    if (KIND == SCAN_SUM) {
        return 0u;
    }
    return floats() ? floatBitsToUint(1.0) : 1u;
}

uint join(uint a, uint b) {
    if (floats()) {
        float u = uintBitsToFloat(a), v = uintBitsToFloat(b);
        return floatBitsToUint(KIND == SCAN_SUM ? u + v : u * v);
    }
    return KIND == SCAN_SUM ? a + b : a * b;
}

// The index of column c, counted in the direction of the scan.
uint column(uint c) { return REVERSE != 0u ? p.x.cols - 1u - c : c; }

// An element in the form that is combined: the bits of a float32, or an integer.
uint widen(uint bits) { return floats() ? floatBitsToUint(bits_to_float(bits, x_DT)) : bits; }
uint narrow(uint v) { return floats() ? float_to_bits(uintBitsToFloat(v), y_DT) : v; }

uvec4 load_items(uint from, uint at) {
    uvec4 v = uvec4(nothing());
    if (QUADS != 0u) {
        if (at < p.x.cols) {
            uvec4 bits = x_quad_bits(from + at);
            v = uvec4(widen(bits.x), widen(bits.y), widen(bits.z), widen(bits.w));
        }
        return v;
    }
    for (uint k = 0u; k < ITEMS; k++) {
        if (at + k < p.x.cols) {
            v[k] = widen(x_bits(from + column(at + k) * p.x.col_stride));
        }
    }
    return v;
}

void store_items(uint to, uint at, uvec4 v) {
    if (QUADS != 0u) {
        if (at < p.x.cols) {
            y_set_quad_bits(to + at, uvec4(narrow(v.x), narrow(v.y), narrow(v.z), narrow(v.w)));
        }
        return;
    }
    for (uint k = 0u; k < ITEMS; k++) {
        if (at + k < p.x.cols) {
            y_set_bits(to + column(at + k) * p.out_col_stride, narrow(v[k]));
        }
    }
}

uint out_start(uint row) {
    uint q = row / p.x.shape[2];
    uint at = p.out_offset + (row - q * p.x.shape[2]) * p.out_strides[2];
    row = q;
    q = row / p.x.shape[1];
    return at + (row - q * p.x.shape[1]) * p.out_strides[1] + q * p.out_strides[0];
}

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require

shared uint totals[gl_WorkGroupSize.x]; // of each subgroup

uint lanes_before(uint v) {
    if (floats()) {
        float u = uintBitsToFloat(v);
        return floatBitsToUint(KIND == SCAN_SUM ? subgroupExclusiveAdd(u) : subgroupExclusiveMul(u));
    }
    return KIND == SCAN_SUM ? subgroupExclusiveAdd(v) : subgroupExclusiveMul(v);
}

// The combined results of the threads before this one, and of all threads.
uint join_before(uint v, out uint all) {
    uint own = lanes_before(v);
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1u) {
        totals[gl_SubgroupID] = join(own, v);
    }
    barrier();
    uint before = nothing();
    all = before;
    for (uint k = 0u; k < gl_NumSubgroups; k++) {
        before = k == gl_SubgroupID ? all : before;
        all = join(all, totals[k]);
    }
    return join(before, own);
}

#else

shared uint totals[gl_WorkGroupSize.x]; // of each thread and those before it

uint join_before(uint v, out uint all) {
    uint t = gl_LocalInvocationID.x;
    totals[t] = v;
    barrier();
    for (uint distance = 1u; distance < gl_WorkGroupSize.x; distance *= 2u) {
        uint before = t >= distance ? totals[t - distance] : nothing();
        barrier();
        totals[t] = join(before, totals[t]);
        barrier();
    }
    all = totals[gl_WorkGroupSize.x - 1u];
    return t > 0u ? totals[t - 1u] : nothing();
}

#endif

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint from = row_start(p.x, row), to = out_start(row);
    uint carry = nothing();
    for (uint first = 0u; first < p.x.cols; first += gl_WorkGroupSize.x * ITEMS) {
        uint at = first + gl_LocalInvocationID.x * ITEMS, total = nothing(), all;
        uvec4 run = load_items(from, at);
        for (uint k = 0u; k < ITEMS; k++) {
            uint joint = join(total, run[k]);
            run[k] = EXCLUSIVE != 0u ? total : joint;
            total = joint;
        }
        uint before = join(carry, join_before(total, all));
        for (uint k = 0u; k < ITEMS; k++) {
            run[k] = join(before, run[k]);
        }
        store_items(to, at, run);
        carry = join(carry, all);
        barrier(); // the next block overwrites totals
    }
}
