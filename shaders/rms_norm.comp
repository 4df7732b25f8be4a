// RMSNorm along rows, one workgroup per row: out = x / sqrt(mean(x^2) + eps) * weight.
//
// variants: narrow_subgroup narrow base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_IN(1, w, 2)
TENSOR_OUT(2, y, 3)
QUADS_IN(0, x)
QUADS_IN(1, w)
QUAD_BITS_OUT(2, y)
layout(constant_id = 4) const uint HAS_WEIGHT = 1;
layout(constant_id = 5) const uint ITEMS = 4;
layout(constant_id = 6) const uint QUADS = 0;
layout(push_constant) uniform Push { RMSNormParams p; };

#define ROW_ITEMS ITEMS
#include "rows.glsl"
#include "workgroup_reduce.glsl"

float block[MAX_ITEMS];
float gain[MAX_ITEMS];

ROW_LOADS(x, load_items, block)
ROW_LOADS(w, load_weight, gain)
ROW_STORES(y, store_items, block)

void load_block(uint from, uint first) { load_items(from, p.x.col_stride, p.x.cols, first, 0.0); }

void load_gain(uint first) {
    if (HAS_WEIGHT != 0u) {
        load_weight(p.w_offset, p.w_stride, p.x.cols, first, 1.0);
    }
}

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint from = row_start(p.x, row);
    bool one_block = p.x.cols <= row_block();
    if (one_block) {
        load_gain(0u); // in flight while the sum is computed
    }
    float squares = 0.0;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        load_block(from, first);
        float part = 0.0; // summed separately: fewer roundings
        for (uint k = 0u; k < ITEMS; k++) {
            part += block[k] * block[k];
        }
        squares += part;
    }
    float scale = inversesqrt(workgroup_add(squares) / float(p.x.cols) + p.eps);
    uint to = p.out_offset + row * p.x.cols;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        if (!one_block) {
            load_block(from, first);
            load_gain(first);
        }
        for (uint k = 0u; k < ITEMS; k++) {
            block[k] = block[k] * scale * (HAS_WEIGHT != 0u ? gain[k] : 1.0);
        }
        store_items(to, p.x.cols, first);
    }
}
