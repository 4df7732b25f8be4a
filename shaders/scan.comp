// Sums or products of all that comes before, along rows: one workgroup per row.
// In each block of columns a thread takes ITEMS neighbours, and the threads join
// what they have, doubling the distance; the carry goes from block to block. The
// order depends on the row's length alone. Integers wrap around.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint KIND = SCAN_SUM;
layout(constant_id = 4) const uint EXCLUSIVE = 0;
layout(constant_id = 5) const uint REVERSE = 0;
layout(push_constant) uniform Push { ScanParams p; };

#define ITEMS 4

shared uint totals[gl_WorkGroupSize.x]; // the bits of a float, or an integer

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

// Where column c, counted in the direction of the scan, is.
uint column(uint c) { return REVERSE != 0u ? p.x.cols - 1u - c : c; }

uint load(uint i) { return floats() ? floatBitsToUint(x_load(i)) : x_bits(i); }

void store(uint i, uint v) {
    if (floats()) {
        y_store(i, uintBitsToFloat(v));
    } else {
        y_set_bits(i, v);
    }
}

uint out_start(uint row) {
    uint q = row / p.x.shape[2];
    uint at = p.out_offset + (row - q * p.x.shape[2]) * p.out_strides[2];
    row = q;
    q = row / p.x.shape[1];
    return at + (row - q * p.x.shape[1]) * p.out_strides[1] + q * p.out_strides[0];
}

// Leaves in totals the joint totals of each thread and those before it.
void scan_totals(uint t) {
    for (uint distance = 1u; distance < gl_WorkGroupSize.x; distance *= 2u) {
        uint before = t >= distance ? totals[t - distance] : nothing();
        barrier();
        totals[t] = join(before, totals[t]);
        barrier();
    }
}

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint from = row_start(p.x, row), to = out_start(row), t = gl_LocalInvocationID.x;
    uint carry = nothing();
    for (uint first = 0u; first < p.x.cols; first += gl_WorkGroupSize.x * ITEMS) {
        uint at = first + t * ITEMS, run[ITEMS], total = nothing();
        for (uint k = 0u; k < ITEMS; k++) {
            uint v = at + k < p.x.cols ? load(from + column(at + k) * p.x.col_stride) : nothing();
            run[k] = EXCLUSIVE != 0u ? total : join(total, v);
            total = join(total, v);
        }
        totals[t] = total;
        barrier();
        scan_totals(t);
        uint before = t > 0u ? join(carry, totals[t - 1u]) : carry;
        for (uint k = 0u; k < ITEMS; k++) {
            if (at + k < p.x.cols) {
                store(to + column(at + k) * p.out_col_stride, join(before, run[k]));
            }
        }
        carry = join(carry, totals[gl_WorkGroupSize.x - 1u]);
        barrier(); // the next block writes totals anew
    }
}
