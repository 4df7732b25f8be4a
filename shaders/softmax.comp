// Softmax along rows, one workgroup per row. Each thread keeps the maximum so far
// and the sum of exponentials relative to it; the workgroup combines these, and a
// second pass writes. A row of -inf gives NaNs, by the rules of IEEE 754.
//
// variants: narrow_subgroup narrow base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "quads.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
QUADS_IN(0, x)
QUAD_BITS_OUT(1, y)
layout(constant_id = 3) const uint ITEMS = 4;
layout(constant_id = 4) const uint QUADS = 0;
layout(push_constant) uniform Push { SoftmaxParams p; };

#define ROW_ITEMS ITEMS
#include "rows.glsl"
#include "workgroup_reduce.glsl"

float block[MAX_ITEMS];

ROW_LOADS(x, load_items, block)
ROW_STORES(y, store_items, block)

void load_block(uint from, uint first) { load_items(from, p.x.col_stride, p.x.cols, first, -make_inf()); }

// Replaces the thread's items by exponentials relative to its maximum so far, top, and adds them to sum.
void add_block(inout float top, inout float sum) {
    float old = top;
    [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
        top = max(top, block[k]);
    }
    float part = 0.0; // summed separately: fewer roundings
    sum = sum != 0.0 ? sum * m_exp(old - top) : 0.0;
    [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
        bool lowest = floatBitsToUint(block[k]) == 0xff800000u; // relative to -inf it would be a NaN
        block[k] = lowest ? 0.0 : m_exp(block[k] - top);
        part += block[k];
    }
    sum += part;
}

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint from = row_start(p.x, row);
    float top = -make_inf();
    float sum = 0.0;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        load_block(from, first);
        add_block(top, sum);
    }
    float row_top = workgroup_max(top);
    float factor = sum != 0.0 ? m_exp(top - row_top) : 0.0;
    float scale = 1.0 / workgroup_add(sum * factor);
    uint to = p.out_offset + row * p.x.cols;
    if (p.x.cols <= row_block()) { // the exponentials are still in registers
        scale *= factor;
        [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
            block[k] *= scale;
        }
        store_items(to, p.x.cols, 0u);
        return;
    }
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        load_block(from, first);
        [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
            block[k] = m_exp(block[k] - row_top) * scale;
        }
        store_items(to, p.x.cols, first);
    }
}
