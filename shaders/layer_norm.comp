// Layer normalization along rows, one workgroup per row: out = (x - mean) /
// sqrt(mean((x - mean)^2) + eps) * weight + bias. The mean is computed first,
// so that the squares of the differences lose no precision.
//
// variants: narrow_subgroup narrow base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_IN(1, w, 2)
TENSOR_IN(2, b, 3)
TENSOR_OUT(3, y, 4)
QUADS_IN(0, x)
QUADS_IN(1, w)
QUADS_IN(2, b)
QUAD_BITS_OUT(3, y)
layout(constant_id = 5) const uint HAS = LAYER_NORM_WEIGHT | LAYER_NORM_BIAS;
layout(constant_id = 6) const uint ITEMS = 4;
layout(constant_id = 7) const uint QUADS = 0;
layout(push_constant) uniform Push { LayerNormParams p; };

#define ROW_ITEMS ITEMS
#include "rows.glsl"
#include "workgroup_reduce.glsl"

float block[MAX_ITEMS];
float factors[MAX_ITEMS]; // weights, then biases

ROW_LOADS(x, load_items, block)
ROW_LOADS(w, load_weight, factors)
ROW_LOADS(b, load_bias, factors)
ROW_STORES(y, store_items, block)

void load_block(uint from, uint first) { load_items(from, p.x.col_stride, p.x.cols, first, 0.0); }

float block_sum() {
    float sum = 0.0;
    for (uint k = 0u; k < ITEMS; k++) {
        sum += block[k];
    }
    return sum;
}

float block_squares(uint first, float mean) {
    float sum = 0.0;
    for (uint k = 0u; k < ITEMS; k++) {
        float d = row_column(first, k) < p.x.cols ? block[k] - mean : 0.0;
        precise float square = d * d;
        sum += square;
    }
    return sum;
}

// Each step is rounded separately: a compiler may contract a product and a sum in one form of the kernel and not
// in the other.
void store_block(uint to, uint first, float mean, float scale) {
    for (uint k = 0u; k < ITEMS; k++) {
        precise float normed = (block[k] - mean) * scale;
        block[k] = normed;
    }
    if ((HAS & LAYER_NORM_WEIGHT) != 0u) {
        load_weight(p.w_offset, p.w_stride, p.x.cols, first, 0.0);
        for (uint k = 0u; k < ITEMS; k++) {
            precise float scaled = block[k] * factors[k];
            block[k] = scaled;
        }
    }
    if ((HAS & LAYER_NORM_BIAS) != 0u) {
        load_bias(p.b_offset, p.b_stride, p.x.cols, first, 0.0);
        for (uint k = 0u; k < ITEMS; k++) {
            block[k] += factors[k];
        }
    }
    store_items(to, p.x.cols, first);
}

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint from = row_start(p.x, row);
    bool one_block = p.x.cols <= row_block();
    float sum = 0.0;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        load_block(from, first);
        sum += block_sum();
    }
    float mean = workgroup_add(sum) / float(p.x.cols);
    float squares = 0.0;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        if (!one_block) {
            load_block(from, first);
        }
        squares += block_squares(first, mean);
    }
    float scale = inversesqrt(workgroup_add(squares) / float(p.x.cols) + p.eps);
    uint to = p.out_offset + row * p.x.cols;
    for (uint first = 0u; first < p.x.cols; first += row_block()) {
        if (!one_block) {
            load_block(from, first);
        }
        store_block(to, first, mean, scale);
    }
}
