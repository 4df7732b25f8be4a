// What an op call carries besides its arrays. Go's ops/params.go mirrors these
// structs field by field, and a Go test reads this file to hold it to that.
// Fields are 32-bit. The comment above a struct lists the op's arrays in order;
// a "?" marks one that may be absent.
#pragma once

#include <cstdint>

namespace kpx {

// binary: a, b, out. All of one shape (the caller broadcasts); a and b of one
// dtype; out the same, or bool for comparisons and logic. kind: BINARY_* of types.h.
struct BinaryOp {
    uint32_t kind;
};

// unary: x, out. kind: UNARY_* of types.h.
struct UnaryOp {
    uint32_t kind;
};

// copy: x, out. One shape and dtype, any layouts.
struct CopyOp {
    uint32_t reserved;
};

// cast: x, out. One shape, any layouts and dtypes.
struct CastOp {
    uint32_t reserved;
};

// silu_mul: gate, up, out. out = gate * sigmoid(gate) * up.
struct SiLUMulOp {
    uint32_t reserved;
};

// softmax: x, out. Over the last axis.
struct SoftmaxOp {
    uint32_t reserved;
};

// rms_norm: x, weight? [cols], out. Over the last axis.
struct RMSNormOp {
    float eps;
};

// layer_norm: x, weight? [cols], bias? [cols], out. Over the last axis.
struct LayerNormOp {
    float eps;
};

// reduce: x [kept…, reduced…], out [kept…]. kind: REDUCE_* of types.h. out has x's dtype, but: uint32 for arg_max and
// arg_min (which reduce one axis), bool for all and any, int32 for a sum or product of bools, uint32 for one of uint8s,
// float32 for a mean of integers or bools.
struct ReduceOp {
    uint32_t kind;
};

// random: state uint32 [RANDOM_WORDS], out, contiguous floats. kind: RANDOM_* of types.h; fallback/random.go says what
// the numbers mean.
struct RandomOp {
    uint32_t kind;
    float first;
    float scale;
    float limit;
};

// sample: logits [..., V], params uint32 [SAMPLE_WORDS], step? int32 [1], out uint32 [...]. One draw from each row, as
// fallback/sample.go says; 0xffffffff where a row holds a NaN, +Inf or nothing finite. step of the struct holds when
// the array is absent.
struct SampleOp {
    int32_t step;
};

// gather: x [pre…, V, post…], indices (int32 or uint32), out [pre…, indices…, post…].
// axis is V's. A negative index counts from the end; outside it, zeros.
struct GatherOp {
    uint32_t axis;
};

// quantize: x [..., K], w [..., K*bits/32] uint32, scales, biases? [..., K/group_size]; all but x are results.
// mode: QUANTIZATION_* of types.h, here and below. Without biases, scales are uint8 and the other two are fixed:
// groups of 32 in 4 bits (MXFP4), of 16 in 4 (NVFP4), of 32 in 8 (MXFP8).
struct QuantizeOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

// quantized_gather: w [V, K*bits/32] uint32, scales, biases? [V, K/group_size], indices, out [indices…, K].
struct QuantizedGatherOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

// dequantize: w [..., K*bits/32] uint32, scales, biases? [..., K/group_size], out [..., K].
struct DequantizeOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

// quantized_matmul: x [..., M, K], w, scales, biases?, out [..., M, N].
// transpose: w is [N, K*bits/32] and groups run along K; else w is [K, N*bits/32] and groups run along N.
struct QuantizedMatMulOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
    uint32_t transpose;
};

// projection, made by passes only: x [..., K] of one row, gain? [K], residual?, then for each of three matrices
// w? [N, K*bits/32], scales?, biases?, out?. Products of x, or of RMSNorm(x) * gain if norm is 1, with matrices
// quantized alike. epilogue: PROJECTION_* of types.h; with SiLU there are two matrices of one shape and one out, the
// first; with ARG_MAX one matrix, and out is uint32 [1]: where the largest product is, as arg_max of them.
struct ProjectionOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t norm;
    uint32_t epilogue;
    float eps;
    uint32_t dtype; // with ARG_MAX: of the products
};

// matmul: a [..., M, K], b [..., K, N], out [..., M, N]; one batch shape (the caller broadcasts), any strides.
struct MatMulOp {
    uint32_t reserved;
};

// rope: x [B, H, T, D], offset? int32 [1] or [B], freqs? float32 [dims/2], out [B, H, T, D].
// The angle of position t and pair i is (offset + t) * scale * base^(-2i/dims), or (offset + t) * scale / freqs[i].
// offset of the struct holds when the array is absent.
struct RoPEOp {
    uint32_t dims;
    uint32_t traditional;
    float base;
    float scale;
    int32_t offset;
};

// sdpa: q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv], mask? bool or float [B, Hq, Tq, Tk] (broadcast by
// the caller), key_length? int32 [1], out [B, Hq, Tq, Dv]. Keys at or past key_length do not exist. causal: query i
// sees keys up to L - Tq + i, where L is the key length. A query that sees no key gives zeros.
struct SDPAOp {
    float scale;
    uint32_t causal;
};

// slice_update: dst (updated in place), update (dst's rank), start? int32 [rank].
// start of the struct holds when the array is absent. A start is clamped so that the update fits, as in XLA.
struct SliceUpdateOp {
    int32_t start[8];
};

// slice: x, start? int32 [rank], out (x's rank). out = the part of x that begins at start.
// start of the struct holds when the array is absent. A start is clamped so that the part fits, as slice_update's.
struct SliceOp {
    int32_t start[8];
};

// fill: out, any dtype. Every element gets the low bits of `bits`.
struct FillOp {
    uint32_t bits;
};

// arange: out [n], any dtype but bool. out[i] = start + i * step: of floats in float32, whose bits these are; of
// integers wrapping around.
struct ArangeOp {
    uint32_t start;
    uint32_t step;
};

// concat: one or more x, out. One dtype and, but for axis, one shape; out's axis is as long as theirs together.
struct ConcatOp {
    uint32_t axis;
};

// pad: x, out (x's rank and dtype). x begins at low in out. Around it, out has the element with these bits or, if
// edge is 1, the nearest element of x.
struct PadOp {
    uint32_t low[8];
    uint32_t edge;
    uint32_t bits;
};

// where: condition (bool), a, b, out. All of one shape (the caller broadcasts); a, b and out of one dtype.
struct WhereOp {
    uint32_t reserved;
};

// gather_axis: x, indices (int32 or uint32), out. One rank; x's shape is out's but for axis (the caller broadcasts),
// indices have out's shape. out[…, i, …] = x[…, indices[…, i, …], …]. Negative and outside indices as for gather.
struct GatherAxisOp {
    uint32_t axis;
};

// scatter: x [pre…, V, post…], indices (int32 or uint32), updates [pre…, indices…, post…], out (x's shape). out is x
// with updates[…, i, …] put to out[…, indices[i], …], combined as mode says: SCATTER_* of types.h. axis is V's. Where
// several updates have one place, the last stays, or all are combined. along: indices have updates' shape, with one
// axis for V, and each column its own. A negative index counts from the end; outside there is no effect.
struct ScatterOp {
    uint32_t axis;
    uint32_t mode;
    uint32_t along;
};

// attention_step, made by passes only: q [Hq, D], k, v [Hkv, D] (of one new token), q_gain?, k_gain? [D],
// position? int32 [1], start? int32 [4], key_length? int32 [1], freqs? float32 [dims/2], keys, values
// [1, Hkv, capacity, D] (updated in place), out [Hq, D]. What rms_norm and rope of q and k, slice_update of keys and
// values, and sdpa do one after another. The numbers here hold where an array is absent; dims 0 is no rotation.
struct AttentionStepOp {
    uint32_t q_norm; // whether there is one
    uint32_t k_norm;
    float q_eps;
    float k_eps;
    uint32_t dims;
    uint32_t traditional;
    float base;
    float rope_scale;
    int32_t position;
    int32_t start;
    uint32_t keys; // of the capacity that may exist: the length, or the most that key_length says
    float scale;   // of scores
};

// attention_projection, made by passes only: the arrays of attention_step but for out, then residual?, w, scales,
// biases, out of a projection without a norm, of the row that attention_step gives.
struct AttentionProjectionOp {
    AttentionStepOp step;
    ProjectionOp projection;
};

} // namespace kpx
