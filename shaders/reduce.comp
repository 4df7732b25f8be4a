// Reductions: one result per row. A row is divided into parts; `lanes` threads
// process the quads of columns of a part in turn, and combine their results in a
// tree. With more than one part, a launch TO_PARTS stores partial results and a
// second one FROM_PARTS combines them. The order in which elements are combined
// depends on the shape alone: neighbouring threads may go along the columns or
// along the rows, whichever are contiguous in memory, and the bits are the same.
//
// reduce_ahead loads several quads before it uses any, which makes its code five times as long: a CPU driver compiles a
// pipeline of it in a second. reduce loads one quad at a time, and is otherwise the same.
//
// kernel: reduce
// kernel: reduce_ahead LOADS_AHEAD
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
QUAD_BITS_IN(0, x)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint KIND = REDUCE_SUM;
layout(constant_id = 4) const uint STAGE = STAGE_WHOLE;
layout(constant_id = 5) const uint AHEAD = 8; // quads that are loaded before any is used: 4, 8, or without LOADS_AHEAD 1
layout(constant_id = 6) const uint PLAIN = 0;  // a row consists of contiguous quads
layout(push_constant) uniform Push { ReduceParams p; };

#include "reduce_kinds.glsl"

layout(set = 0, binding = 1) buffer y_Parts { uint data[]; } y_parts;

shared uvec2 partial[1024];

uint outer_start(uint row) {
    uint at = p.offset;
    for (uint d = MAX_DIMS - 1u; row > 0u; d--) { // no division for axes in front, which would be zero
        uint q = row / p.outer_shape[d];
        at += (row - q * p.outer_shape[d]) * p.outer_strides[d];
        row = q;
    }
    return at;
}

uint column_at(uint from, uint c) {
    uint last = MAX_DIMS - 1u;
    for (uint d = last; d > MAX_DIMS - p.inner_rank; d--) {
        uint q = c / p.inner_shape[d];
        from += (c - q * p.inner_shape[d]) * p.inner_strides[d];
        c = q;
    }
    return from + c * p.inner_strides[MAX_DIMS - p.inner_rank];
}

// Four columns that start at a multiple of 4.
uvec4 load_quad(uint from, uint c) {
    if (PLAIN != 0u) {
        return x_quad_bits(from + c);
    }
    if (p.quads != 0u) {
        return x_quad_bits(column_at(from, c));
    }
    return uvec4(x_bits(column_at(from, c)), x_bits(column_at(from, c + 1u)), x_bits(column_at(from, c + 2u)),
                 x_bits(column_at(from, c + 3u)));
}

uvec2 load_partial(uint from, uint c) {
    if (STAGE == STAGE_FROM_PARTS) {
        return uvec2(x_32.data[from + 2u * c], x_32.data[from + 2u * c + 1u]);
    }
    return partial_of(x_bits(column_at(from, c)), c);
}

// The partial results of a lane, a separate one for each column of its quads. An array of them would lie in memory.
struct Quad {
    uvec2 x, y, z, w;
};

// What a lane has before its first element, which is in column c: as much as the smallest element there.
uvec2 before_column(uint c) { return INDEXED && STAGE != STAGE_FROM_PARTS ? uvec2(0u, c) : reduction_identity(); }

// Joins what a lane has so far with an element of a later column.
uvec2 join_later(uvec2 own, uvec2 element) {
    if (INDEXED && STAGE != STAGE_FROM_PARTS) {
        return element.x > own.x ? element : own;
    }
    return join(own, element);
}

Quad join_quad(Quad own, uvec4 bits, uint c) {
    own.x = join_later(own.x, partial_of(bits.x, c));
    own.y = join_later(own.y, partial_of(bits.y, c + 1u));
    own.z = join_later(own.z, partial_of(bits.z, c + 2u));
    own.w = join_later(own.w, partial_of(bits.w, c + 3u));
    return own;
}

// Joins n quads at a time, all of which are loaded before any is used, while there are so many.
#define JOIN_QUADS(n) \
    for (; c < end && end - c >= (n - 1u) * next + 4u; c += n * next) { \
        uvec4 v[n]; \
        [[unroll]] for (uint j = 0u; j < n; j++) { \
            v[j] = load_quad(from, c + j * next); \
        } \
        if (KIND == REDUCE_LOG_SUM_EXP) { \
            JOIN_EXPS(own.x, v, n) \
        } else { \
            [[unroll]] for (uint j = 0u; j < n; j++) { \
                own = join_quad(own, v[j], c + j * next); \
            } \
        } \
    }

uvec2 reduce_lane(uint from, uint c, uint end) {
    Quad own = Quad(before_column(c), before_column(c + 1u), before_column(c + 2u), before_column(c + 3u));
    uint next = 4u * p.lanes;
    if (STAGE != STAGE_FROM_PARTS) {
#ifdef LOADS_AHEAD
        if (AHEAD >= 8u) {
            JOIN_QUADS(8u)
        }
        if (AHEAD >= 4u) {
            JOIN_QUADS(4u)
        }
#endif
        JOIN_QUADS(1u)
    }
    for (; c < end; c += next) {
        own.x = join_later(own.x, load_partial(from, c));
        own.y = c + 1u < end ? join_later(own.y, load_partial(from, c + 1u)) : own.y;
        own.z = c + 2u < end ? join_later(own.z, load_partial(from, c + 2u)) : own.z;
        own.w = c + 3u < end ? join_later(own.w, load_partial(from, c + 3u)) : own.w;
    }
    return join(join(own.x, own.y), join(own.z, own.w));
}

void main() {
    uint t = gl_LocalInvocationID.x;
    uint teams = gl_WorkGroupSize.x / p.lanes; // each takes a part
    uint lane = p.adjacent_rows != 0u ? t / teams : t % p.lanes;
    uint team = p.adjacent_rows != 0u ? t % teams : t / p.lanes;
    uint index = workgroup_index() * teams + team;
    uint part = index / p.rows; // parts with the same number are adjacent, so that teams have neighbouring rows
    uint row = index - part * p.rows;
    if (p.adjacent_rows == 0u) {
        row = index / p.parts;
        part = index - row * p.parts;
    }
    bool works = row < p.rows && part < p.parts;

    uvec2 mine = reduction_identity();
    if (works) {
        uint from = STAGE == STAGE_FROM_PARTS ? p.offset + 2u * row * p.cols : outer_start(row);
        mine = reduce_lane(from, part * p.run + 4u * lane, min(p.cols, (part + 1u) * p.run));
    }
    uint slot = team * p.lanes + lane;
    partial[slot] = mine;
    for (uint k = p.lanes / 2u; k > 0u; k /= 2u) {
        barrier();
        if (lane < k) {
            mine = join(mine, partial[slot + k]);
            partial[slot] = mine;
        }
    }
    if (!works || lane != 0u) {
        return;
    }
    if (STAGE == STAGE_TO_PARTS) {
        uint to = p.out_offset + 2u * (row * p.parts + part);
        y_parts.data[to] = mine.x;
        y_parts.data[to + 1u] = mine.y;
    } else {
        y_set_bits(p.out_offset + row, reduction_result(mine, p.count));
    }
}
