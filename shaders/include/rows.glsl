// For kernels with one workgroup per row along the last axis. Its threads process
// the row in blocks of ITEMS columns each, in quads of neighbours, whose loads
// are in flight together; a row of one block stays in registers between two
// passes. QUADS determines whether a quad is one load or store, but not which
// thread has which column.
//
//   layout(constant_id = 3) const uint ITEMS = 4; // a multiple of 4, at most MAX_ITEMS
//   layout(constant_id = 4) const uint QUADS = 0;
//   #define ROW_ITEMS ITEMS
//   #include "rows.glsl"
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "types.h"

layout(local_size_x_id = 0) in; // before any use of gl_WorkGroupSize

#define MAX_ITEMS 16

// Offset of the row's first element.
uint row_start(RowParams r, uint row) {
    uint q = row / r.shape[2];
    uint at = r.offset + (row - q * r.shape[2]) * r.strides[2];
    row = q;
    q = row / r.shape[1];
    return at + (row - q * r.shape[1]) * r.strides[1] + q * r.strides[0];
}

#ifdef ROW_ITEMS

// The first columns of the blocks: for (uint first = 0u; first < cols; first += row_block()).
uint row_block() { return gl_WorkGroupSize.x * ROW_ITEMS; }

// The column of this thread's item k in a block.
uint row_column(uint first, uint k) {
    return first + (k & ~3u) * gl_WorkGroupSize.x + 4u * gl_LocalInvocationID.x + (k & 3u);
}

// Loads this thread's items of a block of a row that starts at `from`; columns beyond the row get `outside`. With QUADS
// the row consists of whole, contiguous quads.
#define ROW_LOADS(tensor, function, items) \
    void function(uint from, uint stride, uint cols, uint first, float outside) { \
        for (uint k = 0u; k < ROW_ITEMS; k += 4u) { \
            uint c = row_column(first, k); \
            if (QUADS != 0u) { \
                vec4 v = tensor##_quad(from + min(c, cols - 4u)); \
                v = c < cols ? v : vec4(outside); \
                items[k] = v.x, items[k + 1u] = v.y, items[k + 2u] = v.z, items[k + 3u] = v.w; \
                continue; \
            } \
            for (uint i = 0u; i < 4u; i++) { \
                items[k + i] = c + i < cols ? tensor##_load(from + (c + i) * stride) : outside; \
            } \
        } \
    }

// Stores them to a contiguous row.
#define ROW_STORES(tensor, function, items) \
    void function(uint to, uint cols, uint first) { \
        for (uint k = 0u; k < ROW_ITEMS; k += 4u) { \
            uint c = row_column(first, k); \
            if (QUADS != 0u) { \
                if (c < cols) { \
                    tensor##_set_quad_bits(to + c, uvec4(float_to_bits(items[k], tensor##_DT), \
                                                         float_to_bits(items[k + 1u], tensor##_DT), \
                                                         float_to_bits(items[k + 2u], tensor##_DT), \
                                                         float_to_bits(items[k + 3u], tensor##_DT))); \
                } \
                continue; \
            } \
            for (uint i = 0u; i < 4u; i++) { \
                if (c + i < cols) { \
                    tensor##_store(to + c + i, items[k + i]); \
                } \
            } \
        } \
    }

#endif
#endif
