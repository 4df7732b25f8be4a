// What GLSL and C++ both read: element types and the parameter struct of every
// kernel. Fields are 32-bit, so both languages lay them out alike; a struct is
// a kernel's push constants and has at most 128 bytes.
#ifndef KPX_TYPES_H
#define KPX_TYPES_H

#include "gen_kinds.h"

#ifdef __cplusplus
#include <cstdint>
namespace kpx {
using uint = uint32_t;
#endif

// What a launch of the reduce kernel reads and writes: elements and results, or partial results.
#define STAGE_WHOLE 0
#define STAGE_TO_PARTS 1
#define STAGE_FROM_PARTS 2

// How elementwise kernels walk: by elements (0), or by quads of them, where the first
// or the second input may have one element for all four.
#define QUADS_ON 1
#define QUADS_SINGLE_A 2
#define QUADS_SINGLE_B 4

// Most axes that a kernel over three arrays walks; copies help where more remain.
#define MAX_DIMS 4

// Elements of an input and an output (copy, cast, unary): walk.glsl.
struct Walk2Params {
    uint n;               // elements
    uint shape[MAX_RANK]; // axis 0 is the outermost; unused ones are 1
    uint in_strides[MAX_RANK];
    uint out_strides[MAX_RANK];
    uint in_offset;
    uint out_offset;
};

// Elements of two inputs and an output (binary, silu_mul): walk.glsl.
struct Walk3Params {
    uint n;
    uint shape[MAX_DIMS];
    uint a_strides[MAX_DIMS];
    uint b_strides[MAX_DIMS];
    uint out_strides[MAX_DIMS];
    uint a_offset;
    uint b_offset;
    uint out_offset;
};

// An array as rows along its last axis: rows.glsl. Part of other structs.
struct RowParams {
    uint rows;
    uint cols;
    uint shape[3]; // leading axes, padded in front with 1
    uint strides[3];
    uint col_stride;
    uint offset;
};

// quantize: words, scales and biases are dense.
struct QuantizeParams {
    RowParams x;
    uint n;      // elements of x
    uint blocks; // workgroups
    uint group_shift;
    uint w_offset;
    uint s_offset;
    uint b_offset;
};

// dequantize: one thread per element of out, which is contiguous.
struct DequantizeParams {
    uint n;            // elements of out
    uint cols;         // of a row: K
    uint group_shift;  // log2 of the group size, as below
    uint shape[3];     // leading axes, padded in front with 1
    uint w_strides[4]; // of the leading axes, then of the last one
    uint s_strides[4];
    uint b_strides[4];
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
};

// quantized_gather: one thread per element of out, which is contiguous.
struct QuantizedGatherParams {
    uint n;          // elements of out
    uint cols;       // of a row: K
    uint vocabulary; // rows of w
    uint group_shift;
    uint shape[MAX_DIMS]; // of indices, the outermost first; unused ones are 1
    uint i_strides[MAX_DIMS];
    uint w_strides[2];
    uint s_strides[2];
    uint b_strides[2];
    uint i_offset;
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
};

// quantized_matmul: out [rows, n] is contiguous.
struct QuantizedMatMulParams {
    RowParams x;
    uint n;
    uint group_shift;
    uint w_strides[2]; // of w as it is stored: rows, words
    uint s_strides[2];
    uint b_strides[2];
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
    uint rows_per_group; // quantized_matmul_vec: rows of w that a workgroup takes
};

// quantized_matmul_split, quantized_matmul_scales: what quantized_matmul_coopmat reads of x, and of scales and biases.
struct QuantizedMatMulSplitParams {
    RowParams x;
    uint group_shift;
    uint more; // columns behind those of x, for the biases
};
struct QuantizedMatMulScalesParams {
    uint n;
    uint groups; // of a row
    uint group_shift;
    uint more;
    uint s_strides[2];
    uint b_strides[2];
    uint s_offset;
    uint b_offset;
};
struct QuantizedMatMulMatrixParams {
    QuantizedMatMulParams product;
    uint x_runs;     // of 8 elements, in a row of x with what quantized_matmul_split added
    uint split_runs; // of them that a workgroup takes
};
// How often the columns for the biases are repeated: for each product of parts, of x and of w, but of two low ones.
#define BIAS_COPIES(x_parts, w_parts) (5u - (x_parts) - (w_parts))
// The exponent of a row that has infinities or NaNs.
#define NOT_FINITE 0x7fffffff

// projection: a matrix of n rows and what it gives.
struct ProjectionSet {
    uint n;
    uint w_offset;
    uint w_stride; // of rows, as below
    uint s_offset;
    uint s_stride;
    uint b_offset;
    uint b_stride;
    uint out_offset;
};
struct ProjectionParams {
    ProjectionSet sets[3];
    uint starts[2]; // first workgroups of the second and third
    uint x_rows;
    uint x_offset;
    uint x_stride; // of its rows
    uint gain_offset;
    uint residual_offset; // its rows and those of the results are one after another
    float eps;
};

// matmul: out [batches, m, n] is contiguous.
struct MatMulParams {
    uint m;
    uint n;
    uint k;
    uint batch;      // of the first of this dispatch
    uint shape[3];   // batch axes, the outermost first; unused ones are 1
    uint a_batch[3]; // strides of the batch axes
    uint b_batch[3];
    uint a_strides[2]; // m, k
    uint b_strides[2]; // k, n
    uint a_offset;
    uint b_offset;
    uint out_offset;
};
// matmul_split: rows of one operand for matmul_coopmat.
struct MatMulSplitParams {
    uint rows;
    uint k;
    uint batches;
    uint shape[3]; // batch axes, as in MatMulParams, but 1 where the operand is repeated
    uint batch_strides[3];
    uint row_stride;
    uint k_stride;
    uint offset;
    uint runs; // of 8 elements, in a row of parts
};
struct MatMulMatrixParams {
    MatMulParams product;
    uint runs;       // as above
    uint a_parts[3]; // strides of the batch axes in rows of parts
    uint b_parts[3];
    uint a_rows; // of all matrices that were split
    uint b_rows;
};

// matmul_vec: a few rows of a times rows of b that are contiguous along k; out
// [batches, m, n] is contiguous.
struct MatMulVecParams {
    MatMulParams matmul;
    uint rows_per_group; // columns of b that a workgroup takes
};

// rope: out [B, H, T, D] is contiguous.
struct RoPEParams {
    uint n; // threads that have something to do: B*H*T*(D - dims/2)
    uint heads;
    uint steps;
    uint cols; // D
    uint dims;
    uint x_strides[4];
    uint x_offset;
    uint out_offset;
    int offset;           // of the position, where none is read from the device
    uint position_offset; // of the device's positions, and their stride over B
    uint position_stride;
    uint freqs_offset;
    uint freqs_stride;
    float scale;
    float step_high; // exponent of 2 per pair, -2*log2(base)/dims, as a sum;
    float step_low;  // the high part has 12 bits, so that i * step_high is exact
};

// sdpa, sdpa_tiled and sdpa_coopmat. Strides are those of B, H, T, D (of the mask B, Hq, Tq, Tk).
struct SDPAParams {
    uint rows;  // B * Hq * Tq
    uint heads; // of queries
    uint group; // query heads per key head
    uint queries;
    uint keys; // capacity; the length may be less
    uint d;    // elements of a head of q and k
    uint dv;   // of v
    uint q_strides[4];
    uint k_strides[4];
    uint v_strides[4];
    uint mask_strides[4];
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint mask_offset;
    uint length_offset;
    uint out_offset;
    uint causal;
    float scale;
};

// sdpa_split: rows of q, k or v for sdpa_coopmat, [rows, runs of 8 elements].
struct SDPASplitParams {
    uint rows;
    uint cols;
    uint runs;
    uint shape[3]; // of the leading axes but the outermost
    uint strides[4];
    uint col_stride;
    uint offset;
};
// What is added to the exponent of a row that has infinities or NaNs.
#define SPLIT_NOT_FINITE 65536
// The exponent of a row of zeros: below all others.
#define SPLIT_ZERO (-200)

// attention_step: FLAGS.
#define STEP_Q_NORM 1
#define STEP_K_NORM 2
#define STEP_Q_GAIN 4
#define STEP_K_GAIN 8
#define STEP_DEVICE_POSITION 16
#define STEP_DEVICE_START 32
#define STEP_DEVICE_LENGTH 64
#define STEP_FREQS 128
#define STEP_TRADITIONAL 256

// attention_step: q, k, v and out are rows of heads, the cache [heads, capacity, D].
struct AttentionStepParams {
    uint dims;     // of a head that are rotated
    uint capacity; // of the cache
    uint keys;     // of it that may exist; the length may be less
    uint q_offset;
    uint q_stride; // from head to head
    uint k_offset;
    uint k_stride;
    uint v_offset;
    uint v_stride;
    uint q_gain_offset;
    uint k_gain_offset;
    uint freqs_offset;
    uint freqs_stride;
    uint keys_offset;
    uint keys_strides[2]; // of heads and tokens
    uint values_offset;
    uint values_strides[2];
    uint out_offset;
    uint out_stride;
    int position; // the number itself, or where the device's is in its array
    int start;
    int length_at;
    float scale; // of scores
    float rope_scale;
    float step_high; // as in RoPEParams
    float step_low;
    float q_eps;
    float k_eps;
};

// sdpa_combine: part [rows, splits, dv + 2] to out [rows, dv], both contiguous.
struct SDPACombineParams {
    uint rows;
    uint splits;
    uint dv;
    uint out_offset;
};

// transfer: raw bytes between two buffers, by 32-bit words. The masks say which
// bytes of the first and the last word are written.
struct TransferParams {
    uint words;
    uint src; // words into the bindings
    uint dst;
    uint first_mask;
    uint last_mask; // if there is one word, first_mask alone counts
};

// reduce: x is [outer…, inner…], out [outer…] and dense. Axes are padded in front with 1.
struct ReduceParams {
    uint rows;          // results
    uint cols;          // elements of each
    uint parts;         // of each, worked on apart
    uint run;           // columns of a part; with more than one, a multiple of 4 * lanes
    uint lanes;         // threads of a part, a power of two
    uint adjacent_rows; // whether neighbouring threads take neighbouring rows, not columns
    uint quads;         // whether four columns from a multiple of 4 on can be read at once
    uint outer_shape[MAX_DIMS];
    uint outer_strides[MAX_DIMS];
    uint inner_rank; // axes that count, at least 1
    uint inner_shape[MAX_DIMS];
    uint inner_strides[MAX_DIMS];
    uint offset;
    uint out_offset;
    float count; // of elements that a mean divides by
};

// gather: x is [pre, axis, post], out [pre, indices, post] and dense.
struct GatherParams {
    uint n; // elements of out
    uint post_size;
    uint index_count;
    uint axis_length;
    uint axis_stride;
    uint pre_shape[3];
    uint pre_strides[3];
    uint post_shape[3];
    uint post_strides[3];
    uint index_shape[3];
    uint index_strides[3];
    uint x_offset;
    uint index_offset;
    uint out_offset;
};

// layer_norm: what of them there is.
#define LAYER_NORM_WEIGHT 1
#define LAYER_NORM_BIAS 2

// layer_norm: out is dense.
struct LayerNormParams {
    RowParams x;
    uint w_offset;
    uint w_stride;
    uint b_offset;
    uint b_stride;
    uint out_offset;
    float eps;
};

// rms_norm: out is dense.
struct RMSNormParams {
    RowParams x;
    uint w_offset;
    uint w_stride;
    uint out_offset;
    float eps;
};

// slice_update and slice with the start on the device.
struct SliceUpdateParams {
    uint n;        // elements that move
    uint shape[3]; // their inner axes; the outermost of the four needs no length
    uint in_strides[4];
    uint out_strides[4];
    uint in_offset;
    uint out_offset;
    uint room[MAX_RANK];    // the largest start of each axis
    uint strides[MAX_RANK]; // of the array that the part is of
    uint start_offset;
    uint start_stride;
};

// Elements of a condition, two inputs and an output (where): walk.glsl.
struct Walk4Params {
    uint n;
    uint shape[MAX_DIMS];
    uint c_strides[MAX_DIMS];
    uint a_strides[MAX_DIMS];
    uint b_strides[MAX_DIMS];
    uint out_strides[MAX_DIMS];
    uint c_offset;
    uint a_offset;
    uint b_offset;
    uint out_offset;
};

// fill
struct FillParams {
    Walk2Params walk; // of out alone
    uint bits;
};

// arange
struct ArangeParams {
    uint n;
    uint start; // bits of a float32 or an integer
    uint step;
    uint out_offset;
    uint out_stride;
};

// Most axes that the pad kernel tells apart.
#define PAD_DIMS 5

// pad: out is dense.
struct PadParams {
    uint n;               // elements of out
    uint shape[PAD_DIMS]; // of out, the outermost first; unused ones are 1
    uint low[PAD_DIMS];
    uint x_shape[PAD_DIMS];
    uint x_strides[PAD_DIMS];
    uint x_offset;
    uint out_offset;
    uint bits;
};

// gather_axis: a is x without the axis, b the indices.
struct GatherAxisParams {
    Walk3Params walk;
    uint axis_length;
    uint axis_stride;
};

// scatter, scatter_mark: everything is dense.
struct ScatterParams {
    uint n;      // elements of updates; scatter_mark: of indices
    uint count;  // updates along the axis
    uint post;   // elements after the axis
    uint places; // along the axis of out
    uint index_offset;
    uint updates_offset;
    uint out_offset;
    uint marks_offset;
};

// paged_sdpa. Strides are those of R, H, D (of q), P, H, L, D (of keys and values) and S, M (of the table); out and
// parts are contiguous.
struct PagedSDPAParams {
    uint rows;      // R
    uint key_heads; // Hkv
    uint group;     // query heads per key head
    uint d;         // elements of a head of q and keys
    uint dv;        // of values
    uint page;      // L
    uint pages;     // P
    uint sequences; // S
    uint capacity;  // M * L
    uint q_strides[3];
    uint k_strides[4];
    uint v_strides[4];
    uint table_strides[2];
    uint sequence_stride;
    uint length_stride;
    uint q_offset;
    uint k_offset;
    uint v_offset;
    uint table_offset;
    uint sequence_offset;
    uint length_offset;
    uint out_offset;
    float scale;
};

// paged_update. Strides are those of P, H, L, D (of pages) and R, H, D (of rows).
struct PagedUpdateParams {
    uint n; // elements of rows
    uint heads;
    uint d;
    uint page;   // L
    uint places; // P * L
    uint pages_strides[4];
    uint rows_strides[3];
    uint slot_stride;
    uint pages_offset;
    uint rows_offset;
    uint slot_offset;
};

// random: out is contiguous.
struct RandomParams {
    uint n;
    uint state_offset;
    uint state_stride;
    uint out_offset;
    float first;
    float scale;
    float limit;
};

// What sample keeps in scratch memory, for each row: the best token of each
// part, choices of the levels, histograms, and sums of each part.
#define SAMPLE_LEVELS 3
#define SAMPLE_BINS 2048 // of the first two levels; the last has half of them
#define SAMPLE_CHOICE 8  // words of a choice
#define SAMPLE_STATE (SAMPLE_CHOICE * (SAMPLE_LEVELS + 1))
#define SAMPLE_BIN_WORDS 3 // how many there are, and their weight
#define SAMPLE_HISTOGRAMS (SAMPLE_BIN_WORDS * (2 * SAMPLE_BINS + SAMPLE_BINS / 2))
#define SAMPLE_PART_WORDS 5

// sample: out is dense.
struct SampleParams {
    RowParams x;
    uint first_row; // of this dispatch
    uint slots;     // rows of scratch memory
    uint parts;     // workgroups per row
    uint run;       // columns of each
    uint settings_offset;
    uint settings_stride;
    uint settings_row; // from one row's to the next one's
    uint own_settings; // whether each row has its own
    uint has_step;
    uint step_offset;
    int step; // where the device has none
    uint scratch_offset;
    uint scratch_stride; // from row to row
    uint out_offset;
};

// scan: rows of x along its axis; out has their shape.
struct ScanParams {
    RowParams x;
    uint out_strides[3];
    uint out_col_stride;
    uint out_offset;
};

// softmax: out is dense.
struct SoftmaxParams {
    RowParams x;
    uint out_offset;
};

#ifdef __cplusplus
} // namespace kpx
#endif
#endif
