// Rows of x, normed or gated if need be, for kernels that prepare the operands of
// quantized products. A workgroup makes a row, or if there is no norm perhaps a part
// of one. Its threads have RUNS runs of 8 elements each at a time, which are a block; a
// row of one block stays in registers.
//
// Before the include: workgroup_reduce.glsl; TENSOR_IN and QUADS_IN of x and of
// factors; p.rows, the MadeRowsParams; and these constants:
//
//   VECTOR     whether x and factors can be loaded in quads
//   ROWS_KIND  what is made of x first
//   RUNS       of a thread at a time
#ifndef MADE_ROWS_GLSL
#define MADE_ROWS_GLSL

#include "math.glsl"

const bool NORMED = ROWS_KIND == ROWS_NORMED || ROWS_KIND == ROWS_GAINED;

// Eight elements of a row, and what they are multiplied by.
struct Run {
    vec4 low, high, low_factors, high_factors;
};

vec4 x4(uint from, uint k) {
    if (VECTOR != 0) {
        return x_quad(from + k);
    }
    vec4 v;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        v[c] = x_load(from + (k + c) * p.rows.x.col_stride);
    }
    return v;
}

vec4 factors4(uint from, uint k) {
    if (ROWS_KIND < ROWS_GAINED) {
        return vec4(1.0);
    }
    if (VECTOR != 0) {
        return factors_quad(from + k);
    }
    vec4 v;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        v[c] = factors_load(from + (k + c) * p.rows.factors.col_stride);
    }
    return v;
}

Run load_run(uint row, uint run) {
    uint x = row_start(p.rows.x, row);
    uint factors = row_start(p.rows.factors, row);
    return Run(x4(x, run * 8), x4(x, run * 8 + 4), factors4(factors, run * 8), factors4(factors, run * 8 + 4));
}

// The elements that are multiplied; scale: of a norm.
void finish_run(inout Run r, float scale) {
    if (ROWS_KIND == ROWS_GATED) {
        [[unroll]] for (uint c = 0; c < 4; c++) {
            r.low[c] = m_silu(r.low[c]);
            r.high[c] = m_silu(r.high[c]);
        }
    }
    r.low = r.low * scale * r.low_factors;
    r.high = r.high * scale * r.high_factors;
}

float magnitude4(vec4 v) {
    vec4 a = abs(v);
    bool finite = magnitude_bits(v.x) < INF_BITS && magnitude_bits(v.y) < INF_BITS && magnitude_bits(v.z) < INF_BITS &&
                  magnitude_bits(v.w) < INF_BITS;
    return finite ? max(max(a.x, a.y), max(a.z, a.w)) : make_inf();
}

Run block[RUNS]; // of the thread: neighbouring threads have neighbouring runs
uint run_of(uint first, uint i) { return first + i * gl_WorkGroupSize.x + gl_LocalInvocationIndex; }

void load_block(uint row, uint first) {
    uint last = p.rows.x.cols / 8 - 1;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        block[i] = load_run(row, min(run_of(first, i), last));
    }
}

// The sum of squares of the block's runs that exist.
float block_squares(uint first) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        float squares = dot(block[i].low, block[i].low) + dot(block[i].high, block[i].high);
        sum += run_of(first, i) < p.rows.x.cols / 8 ? squares : 0.0;
    }
    return sum;
}

void finish_block(float scale) {
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        finish_run(block[i], scale);
    }
}

bool one_block() { return p.rows.x.cols / 8 <= RUNS * gl_WorkGroupSize.x; }

// What finish_block multiplies a row with; the whole workgroup calls it. If a norm's row is one block, it is loaded then.
float row_scale(uint row) {
    if (!NORMED) {
        return 1.0;
    }
    float squares = 0.0;
    for (uint first = 0; first < p.rows.x.cols / 8; first += RUNS * gl_WorkGroupSize.x) {
        load_block(row, first);
        squares += block_squares(first);
    }
    return inversesqrt(workgroup_add(squares) / float(p.rows.x.cols) + p.rows.eps);
}

#endif
