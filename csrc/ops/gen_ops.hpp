// Made from csrc/ops/ops.def by go generate ./internal/opdef; do not edit.
#pragma once

#include "ops/call.hpp"

// clang-format off
namespace kpx {

struct ArangeOp {
    uint32_t start;
    uint32_t step;
};

struct AttentionStepOp {
    // Whether there is a norm of q, and of k.
    uint32_t q_norm;
    uint32_t k_norm;
    float q_eps;
    float k_eps;
    uint32_t dims;
    uint32_t traditional;
    float base;
    float rope_scale;
    int32_t position;
    int32_t start;
    // The number of keys of the cache that may exist: the length, or the maximum of key_length.
    uint32_t keys;
    // The factor of scores.
    float scale;
};

struct ProjectionOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t norm;
    uint32_t epilogue;
    float eps;
    // The type of the products, with arg_max and greedy.
    uint32_t dtype;
};

struct AttentionProjectionOp {
    AttentionStepOp step;
    ProjectionOp projection;
};

struct BinaryOp {
    uint32_t kind;
};

struct CastOp {
    uint32_t reserved;
};

struct ConcatOp {
    uint32_t axis;
};

struct CopyOp {
    uint32_t reserved;
};

struct DequantizeOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

struct FillOp {
    uint32_t bits;
};

struct GatherOp {
    uint32_t axis;
};

struct GatherAxisOp {
    uint32_t axis;
};

struct LayerNormOp {
    float eps;
};

struct MaskOp {
    uint32_t reserved;
};

struct MatMulOp {
    uint32_t reserved;
};

struct PadOp {
    uint32_t low[8];
    uint32_t edge;
    uint32_t bits;
};

struct PagedHeadsOp {
    // Whether there is a norm of q, and of k.
    uint32_t q_norm;
    uint32_t k_norm;
    float q_eps;
    float k_eps;
    uint32_t dims;
    uint32_t traditional;
    float base;
    float rope_scale;
    int32_t position;
};

struct PagedSDPAOp {
    float scale;
    uint32_t apart;
};

struct PagedStepOp {
    PagedHeadsOp heads;
    float scale;
};

struct PagedUpdateOp {
    uint32_t reserved;
};

struct PenalizeOp {
    uint32_t reserved;
};

struct QKVHeadsOp {
    ProjectionOp projection;
    PagedHeadsOp heads;
    // The factor of scores, if there is a table.
    float scale;
};

struct QuantizeOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

struct QuantizedGatherOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
};

struct QuantizedMatMulOp {
    uint32_t group_size;
    uint32_t bits;
    uint32_t mode;
    uint32_t transpose;
};

struct RandomOp {
    uint32_t kind;
    float first;
    float scale;
    float limit;
};

struct ReduceOp {
    uint32_t kind;
};

struct RMSNormOp {
    float eps;
};

struct RoPEOp {
    uint32_t dims;
    uint32_t traditional;
    float base;
    float scale;
    int32_t offset;
};

struct SampleOp {
    int32_t step;
};

struct ScanOp {
    uint32_t axis;
    uint32_t kind;
    uint32_t exclusive;
    uint32_t reverse;
};

struct ScatterOp {
    uint32_t axis;
    uint32_t mode;
    uint32_t along;
};

struct SDPAOp {
    float scale;
    uint32_t causal;
};

struct SiLUMulOp {
    uint32_t reserved;
};

struct SliceOp {
    int32_t start[8];
};

struct SliceUpdateOp {
    int32_t start[8];
};

struct SoftmaxOp {
    uint32_t reserved;
};

struct TallyOp {
    uint32_t reserved;
};

struct UnaryOp {
    uint32_t kind;
};

struct WhereOp {
    uint32_t reserved;
};

// out is a vector of any dtype except bool. out[i] = start + i * step: for floats in float32, whose bits start and step
// are; for integers wrapping around.
class ArangeCall : public CallOf<ArangeOp> {
  public:
    static constexpr int32_t kOp = 0;
    enum Operand : uint32_t { kOut };
    static constexpr OperandInfo kOperands[] = {
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &out() const { return at(kOut); }
};
void lower_arange(Lowering &lowering, const ArangeCall &call);

// Attention of one new token, as in attention_step, then the product of its result and one matrix: a projection without
// a norm.
class AttentionProjectionCall : public CallOf<AttentionProjectionOp> {
  public:
    static constexpr int32_t kOp = 1;
    enum Operand : uint32_t { kQ, kK, kV, kQGain, kKGain, kPosition, kStart, kKeyLength, kFreqs, kKeys, kValues, kResidual, kW, kScales, kBiases, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"k", KPX_READ, false},
        {"v", KPX_READ, false},
        {"q_gain", KPX_READ, true},
        {"k_gain", KPX_READ, true},
        {"position", KPX_READ, true},
        {"start", KPX_READ, true},
        {"key_length", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"keys", KPX_READ_WRITE, false},
        {"values", KPX_READ_WRITE, false},
        {"residual", KPX_READ, true},
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &k() const { return at(kK); }
    const Array &v() const { return at(kV); }
    const Array &q_gain() const { return at(kQGain); }
    const Array &k_gain() const { return at(kKGain); }
    const Array &position() const { return at(kPosition); }
    const Array &start() const { return at(kStart); }
    const Array &key_length() const { return at(kKeyLength); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &residual() const { return at(kResidual); }
    const Array &w() const { return at(kW); }
    const Array &scales() const { return at(kScales); }
    const Array &biases() const { return at(kBiases); }
    const Array &out() const { return at(kOut); }
};
void lower_attention_projection(Lowering &lowering, const AttentionProjectionCall &call);

// q [Hq, D], k, v [Hkv, D] (of one new token), gains [D], position int32 [1], start int32 [4], key_length int32 [1],
// freqs float32 [dims/2], keys, values [1, Hkv, capacity, D], out [Hq, D]. Does what rms_norm and rope of q and k,
// slice_update of keys and values, and sdpa do one after another. position and start of the struct apply if these
// arrays are absent; dims 0 means no rotation.
class AttentionStepCall : public CallOf<AttentionStepOp> {
  public:
    static constexpr int32_t kOp = 2;
    enum Operand : uint32_t { kQ, kK, kV, kQGain, kKGain, kPosition, kStart, kKeyLength, kFreqs, kKeys, kValues, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"k", KPX_READ, false},
        {"v", KPX_READ, false},
        {"q_gain", KPX_READ, true},
        {"k_gain", KPX_READ, true},
        {"position", KPX_READ, true},
        {"start", KPX_READ, true},
        {"key_length", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"keys", KPX_READ_WRITE, false},
        {"values", KPX_READ_WRITE, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &k() const { return at(kK); }
    const Array &v() const { return at(kV); }
    const Array &q_gain() const { return at(kQGain); }
    const Array &k_gain() const { return at(kKGain); }
    const Array &position() const { return at(kPosition); }
    const Array &start() const { return at(kStart); }
    const Array &key_length() const { return at(kKeyLength); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &out() const { return at(kOut); }
};
void lower_attention_step(Lowering &lowering, const AttentionStepCall &call);

// All of one shape (the caller broadcasts); a and b of one dtype; out the same, or bool for comparisons and logic.
class BinaryCall : public CallOf<BinaryOp> {
  public:
    static constexpr int32_t kOp = 3;
    enum Operand : uint32_t { kA, kB, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"a", KPX_READ, false},
        {"b", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &a() const { return at(kA); }
    const Array &b() const { return at(kB); }
    const Array &out() const { return at(kOut); }
};
void lower_binary(Lowering &lowering, const BinaryCall &call);

// One shape, any layouts and dtypes.
class CastCall : public CallOf<CastOp> {
  public:
    static constexpr int32_t kOp = 4;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_cast(Lowering &lowering, const CastCall &call);

// One dtype and, except along axis, one shape; out's axis is as long as theirs together.
class ConcatCall : public CallOf<ConcatOp> {
  public:
    static constexpr int32_t kOp = 5;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = true; // whether the first operand may be repeated
    using CallOf::CallOf;

    uint32_t x_count() const { return count() - 1; }
    const Array &x(uint32_t i) const { return at(i); }
    const Array &out() const { return at(count() - 1); }
};
void lower_concat(Lowering &lowering, const ConcatCall &call);

// One shape and dtype, any layouts.
class CopyCall : public CallOf<CopyOp> {
  public:
    static constexpr int32_t kOp = 6;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_copy(Lowering &lowering, const CopyCall &call);

// w uint32 [..., K*bits/32], scales, biases [..., K/group_size], out [..., K].
class DequantizeCall : public CallOf<DequantizeOp> {
  public:
    static constexpr int32_t kOp = 7;
    enum Operand : uint32_t { kW, kScales, kBiases, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &w() const { return at(kW); }
    const Array &scales() const { return at(kScales); }
    const Array &biases() const { return at(kBiases); }
    const Array &out() const { return at(kOut); }
};
void lower_dequantize(Lowering &lowering, const DequantizeCall &call);

// Every element of out, of any dtype, gets the low bits of `bits`.
class FillCall : public CallOf<FillOp> {
  public:
    static constexpr int32_t kOp = 8;
    enum Operand : uint32_t { kOut };
    static constexpr OperandInfo kOperands[] = {
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &out() const { return at(kOut); }
};
void lower_fill(Lowering &lowering, const FillCall &call);

// x [pre…, V, post…], indices (int32 or uint32), out [pre…, indices…, post…]. axis is V's. A negative index counts from
// the end; one out of range gives zeros.
class GatherCall : public CallOf<GatherOp> {
  public:
    static constexpr int32_t kOp = 9;
    enum Operand : uint32_t { kX, kIndices, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"indices", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &indices() const { return at(kIndices); }
    const Array &out() const { return at(kOut); }
};
void lower_gather(Lowering &lowering, const GatherCall &call);

// One rank; x's shape is out's except along axis (the caller broadcasts), indices (int32 or uint32) have out's shape.
// out[…, i, …] = x[…, indices[…, i, …], …]. Indices that are negative or out of range are treated as by gather.
class GatherAxisCall : public CallOf<GatherAxisOp> {
  public:
    static constexpr int32_t kOp = 10;
    enum Operand : uint32_t { kX, kIndices, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"indices", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &indices() const { return at(kIndices); }
    const Array &out() const { return at(kOut); }
};
void lower_gather_axis(Lowering &lowering, const GatherAxisCall &call);

// Over the last axis; weight and bias [cols].
class LayerNormCall : public CallOf<LayerNormOp> {
  public:
    static constexpr int32_t kOp = 11;
    enum Operand : uint32_t { kX, kWeight, kBias, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"weight", KPX_READ, true},
        {"bias", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &weight() const { return at(kWeight); }
    const Array &bias() const { return at(kBias); }
    const Array &out() const { return at(kOut); }
};
void lower_layer_norm(Lowering &lowering, const LayerNormCall &call);

// logits float32 [N, V], allowed uint32 [N, V/32 rounded up]. logits[n, v] becomes -Inf where the bit of v is 0: bit v
// % 32 of allowed[n, v / 32].
class MaskCall : public CallOf<MaskOp> {
  public:
    static constexpr int32_t kOp = 12;
    enum Operand : uint32_t { kLogits, kAllowed };
    static constexpr OperandInfo kOperands[] = {
        {"logits", KPX_READ_WRITE, false},
        {"allowed", KPX_READ, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &logits() const { return at(kLogits); }
    const Array &allowed() const { return at(kAllowed); }
};
void lower_mask(Lowering &lowering, const MaskCall &call);

// a [..., M, K], b [..., K, N], out [..., M, N]; one batch shape (the caller broadcasts), any strides.
class MatMulCall : public CallOf<MatMulOp> {
  public:
    static constexpr int32_t kOp = 13;
    enum Operand : uint32_t { kA, kB, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"a", KPX_READ, false},
        {"b", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &a() const { return at(kA); }
    const Array &b() const { return at(kB); }
    const Array &out() const { return at(kOut); }
};
void lower_matmul(Lowering &lowering, const MatMulCall &call);

// x begins at low in out, which has its rank and dtype. Around it, out has the element with these bits or, if edge is
// 1, the nearest element of x.
class PadCall : public CallOf<PadOp> {
  public:
    static constexpr int32_t kOp = 14;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_pad(Lowering &lowering, const PadCall &call);

// q [R, Hq, D], k and v [R, Hkv, D] of R tokens, gains [D], position int32 [1] or [R], freqs float32 [dims/2], slots
// int32 [R], keys and values [P, Hkv, L, D] (of uint8, see CACHE_GROUP), out [R, Hq, D]. Does what rms_norm and rope of
// q and k, and paged_update of keys and values do: out has the queries. position of the struct applies if the array is
// absent.
class PagedHeadsCall : public CallOf<PagedHeadsOp> {
  public:
    static constexpr int32_t kOp = 15;
    enum Operand : uint32_t { kQ, kK, kV, kQGain, kKGain, kPosition, kFreqs, kSlots, kKeys, kValues, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"k", KPX_READ, false},
        {"v", KPX_READ, false},
        {"q_gain", KPX_READ, true},
        {"k_gain", KPX_READ, true},
        {"position", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"slots", KPX_READ, false},
        {"keys", KPX_READ_WRITE, false},
        {"values", KPX_READ_WRITE, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &k() const { return at(kK); }
    const Array &v() const { return at(kV); }
    const Array &q_gain() const { return at(kQGain); }
    const Array &k_gain() const { return at(kKGain); }
    const Array &position() const { return at(kPosition); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &slots() const { return at(kSlots); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &out() const { return at(kOut); }
};
void lower_paged_heads(Lowering &lowering, const PagedHeadsCall &call);

// q [R, Hq, D], keys [P, Hkv, L, D] and values [P, Hkv, L, Dv] of P pages of L tokens (of uint8, see CACHE_GROUP),
// table int32 [S, M], sequences and lengths int32 [R], out [R, Hq, Dv]. Row r attends to the first lengths[r] (clamped
// to 0…M*L) tokens of sequence sequences[r], whose token t is token t % L of page table[sequence, t / L]. Where there
// is no such page, token and sequence do not exist. A row that sees no key gives zeros. apart is 1 if no row sees what
// the paged_update before it writes for another row.
class PagedSDPACall : public CallOf<PagedSDPAOp> {
  public:
    static constexpr int32_t kOp = 16;
    enum Operand : uint32_t { kQ, kKeys, kValues, kTable, kSequences, kLengths, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"keys", KPX_READ, false},
        {"values", KPX_READ, false},
        {"table", KPX_READ, false},
        {"sequences", KPX_READ, false},
        {"lengths", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &table() const { return at(kTable); }
    const Array &sequences() const { return at(kSequences); }
    const Array &lengths() const { return at(kLengths); }
    const Array &out() const { return at(kOut); }
};
void lower_paged_sdpa(Lowering &lowering, const PagedSDPACall &call);

// paged_heads of tokens, and paged_sdpa of their rows, none of which sees another: the operands of both, out [R, Hq,
// D]. Rows of one sequence may give NaNs.
class PagedStepCall : public CallOf<PagedStepOp> {
  public:
    static constexpr int32_t kOp = 17;
    enum Operand : uint32_t { kQ, kK, kV, kQGain, kKGain, kPosition, kFreqs, kSlots, kKeys, kValues, kTable, kSequences, kLengths, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"k", KPX_READ, false},
        {"v", KPX_READ, false},
        {"q_gain", KPX_READ, true},
        {"k_gain", KPX_READ, true},
        {"position", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"slots", KPX_READ, false},
        {"keys", KPX_READ_WRITE, false},
        {"values", KPX_READ_WRITE, false},
        {"table", KPX_READ, false},
        {"sequences", KPX_READ, false},
        {"lengths", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &k() const { return at(kK); }
    const Array &v() const { return at(kV); }
    const Array &q_gain() const { return at(kQGain); }
    const Array &k_gain() const { return at(kKGain); }
    const Array &position() const { return at(kPosition); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &slots() const { return at(kSlots); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &table() const { return at(kTable); }
    const Array &sequences() const { return at(kSequences); }
    const Array &lengths() const { return at(kLengths); }
    const Array &out() const { return at(kOut); }
};
void lower_paged_step(Lowering &lowering, const PagedStepCall &call);

// pages [P, H, L, D] of P pages of L tokens, rows [R, H, D], slots int32 [R], all different. Row r becomes token
// slots[r] % L of page slots[r] / L, rounded to pages' type (of uint8, see CACHE_GROUP); where there is no such page it
// goes nowhere.
class PagedUpdateCall : public CallOf<PagedUpdateOp> {
  public:
    static constexpr int32_t kOp = 18;
    enum Operand : uint32_t { kPages, kRows, kSlots };
    static constexpr OperandInfo kOperands[] = {
        {"pages", KPX_READ_WRITE, false},
        {"rows", KPX_READ, false},
        {"slots", KPX_READ, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &pages() const { return at(kPages); }
    const Array &rows() const { return at(kRows); }
    const Array &slots() const { return at(kSlots); }
};
void lower_paged_update(Lowering &lowering, const PagedUpdateCall &call);

// logits float32 [N, V], counts uint32 [S, V], penalties float32 [S, 4], a PENALTY each, rows int32 [N]. Row n of
// logits is changed by row rows[n] of penalties where that of counts is not 0; one that does not exist leaves it
// unchanged.
class PenalizeCall : public CallOf<PenalizeOp> {
  public:
    static constexpr int32_t kOp = 19;
    enum Operand : uint32_t { kLogits, kCounts, kPenalties, kRows };
    static constexpr OperandInfo kOperands[] = {
        {"logits", KPX_READ_WRITE, false},
        {"counts", KPX_READ, false},
        {"penalties", KPX_READ, false},
        {"rows", KPX_READ, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &logits() const { return at(kLogits); }
    const Array &counts() const { return at(kCounts); }
    const Array &penalties() const { return at(kPenalties); }
    const Array &rows() const { return at(kRows); }
};
void lower_penalize(Lowering &lowering, const PenalizeCall &call);

// x, up [..., K], gain [K], then for each of three matrices w [N, K*bits/32], scales, biases, out; absent ones are the
// last. Products of the rows of x, or of RMSNorm(x) * gain if norm is 1, or of SiLU(x) * up if there is an up, with
// matrices quantized alike; without biases, scales are uint8 and the mode is the one with such bits and groups. With
// the epilogue silu_mul there are two matrices of one shape and one out, the first; with arg_max and greedy one row and
// one matrix, and out is uint32 [1]: where the largest product is, as the kinds of reduce of these names say.
class ProjectionCall : public CallOf<ProjectionOp> {
  public:
    static constexpr int32_t kOp = 20;
    static constexpr uint32_t kGroups = 3, kGroupSize = 4; // of the operands from kW on
    enum Operand : uint32_t { kX, kGain, kUp, kResidual, kW, kScales, kBiases, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"gain", KPX_READ, true},
        {"up", KPX_READ, true},
        {"residual", KPX_READ, true},
        {"w", KPX_READ, true},
        {"scales", KPX_READ, true},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, true},
        {"w", KPX_READ, true},
        {"scales", KPX_READ, true},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, true},
        {"w", KPX_READ, true},
        {"scales", KPX_READ, true},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, true},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &gain() const { return at(kGain); }
    const Array &up() const { return at(kUp); }
    const Array &residual() const { return at(kResidual); }
    const Array &w(uint32_t i) const { return at(kW + kGroupSize * i); }
    const Array &scales(uint32_t i) const { return at(kScales + kGroupSize * i); }
    const Array &biases(uint32_t i) const { return at(kBiases + kGroupSize * i); }
    const Array &out(uint32_t i) const { return at(kOut + kGroupSize * i); }
};
void lower_projection(Lowering &lowering, const ProjectionCall &call);

// x [R, K], gain [K], then for queries, keys and values w [N, K*bits/32], scales, biases. Does what a projection with a
// norm does and then, with its results as q, k and v, paged_step, or paged_heads if there is no table, whose operands
// it also has.
class QKVHeadsCall : public CallOf<QKVHeadsOp> {
  public:
    static constexpr int32_t kOp = 21;
    static constexpr uint32_t kGroups = 3, kGroupSize = 3; // of the operands from kW on
    enum Operand : uint32_t { kX, kGain, kQGain, kKGain, kPosition, kFreqs, kSlots, kKeys, kValues, kTable, kSequences, kLengths, kOut, kW, kScales, kBiases };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"gain", KPX_READ, true},
        {"q_gain", KPX_READ, true},
        {"k_gain", KPX_READ, true},
        {"position", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"slots", KPX_READ, false},
        {"keys", KPX_READ_WRITE, false},
        {"values", KPX_READ_WRITE, false},
        {"table", KPX_READ, true},
        {"sequences", KPX_READ, true},
        {"lengths", KPX_READ, true},
        {"out", KPX_WRITE, false},
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &gain() const { return at(kGain); }
    const Array &q_gain() const { return at(kQGain); }
    const Array &k_gain() const { return at(kKGain); }
    const Array &position() const { return at(kPosition); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &slots() const { return at(kSlots); }
    const Array &keys() const { return at(kKeys); }
    const Array &values() const { return at(kValues); }
    const Array &table() const { return at(kTable); }
    const Array &sequences() const { return at(kSequences); }
    const Array &lengths() const { return at(kLengths); }
    const Array &out() const { return at(kOut); }
    const Array &w(uint32_t i) const { return at(kW + kGroupSize * i); }
    const Array &scales(uint32_t i) const { return at(kScales + kGroupSize * i); }
    const Array &biases(uint32_t i) const { return at(kBiases + kGroupSize * i); }
};
void lower_qkv_heads(Lowering &lowering, const QKVHeadsCall &call);

// x [..., K], w [..., K*bits/32] uint32, scales, biases [..., K/group_size]. Without biases, scales are uint8 and the
// other two are fixed: groups of 32 in 4 bits (MXFP4), of 16 in 4 (NVFP4), of 32 in 8 (MXFP8).
class QuantizeCall : public CallOf<QuantizeOp> {
  public:
    static constexpr int32_t kOp = 22;
    enum Operand : uint32_t { kX, kW, kScales, kBiases };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"w", KPX_WRITE, false},
        {"scales", KPX_WRITE, false},
        {"biases", KPX_WRITE, true},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &w() const { return at(kW); }
    const Array &scales() const { return at(kScales); }
    const Array &biases() const { return at(kBiases); }
};
void lower_quantize(Lowering &lowering, const QuantizeCall &call);

// w uint32 [V, K*bits/32], scales, biases [V, K/group_size], indices, out [indices…, K].
class QuantizedGatherCall : public CallOf<QuantizedGatherOp> {
  public:
    static constexpr int32_t kOp = 23;
    enum Operand : uint32_t { kW, kScales, kBiases, kIndices, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"indices", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &w() const { return at(kW); }
    const Array &scales() const { return at(kScales); }
    const Array &biases() const { return at(kBiases); }
    const Array &indices() const { return at(kIndices); }
    const Array &out() const { return at(kOut); }
};
void lower_quantized_gather(Lowering &lowering, const QuantizedGatherCall &call);

// x [..., M, K], out [..., M, N]. transpose: w is [N, K*bits/32] and groups run along K; else w is [K, N*bits/32] and
// groups run along N.
class QuantizedMatMulCall : public CallOf<QuantizedMatMulOp> {
  public:
    static constexpr int32_t kOp = 24;
    enum Operand : uint32_t { kX, kW, kScales, kBiases, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"w", KPX_READ, false},
        {"scales", KPX_READ, false},
        {"biases", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &w() const { return at(kW); }
    const Array &scales() const { return at(kScales); }
    const Array &biases() const { return at(kBiases); }
    const Array &out() const { return at(kOut); }
};
void lower_quantized_matmul(Lowering &lowering, const QuantizedMatMulCall &call);

// state uint32 [RANDOM_STATE_SIZE], out contiguous floats. fallback/random.go says what the numbers mean.
class RandomCall : public CallOf<RandomOp> {
  public:
    static constexpr int32_t kOp = 25;
    enum Operand : uint32_t { kState, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"state", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &state() const { return at(kState); }
    const Array &out() const { return at(kOut); }
};
void lower_random(Lowering &lowering, const RandomCall &call);

// x [kept…, reduced…], out [kept…], which has x's dtype, with these exceptions: uint32 for arg_max, arg_min and greedy
// (which reduce one axis), bool for all and any, int32 for a sum or product of bools, uint32 for one of uint8s, float32
// for a mean of integers or bools. greedy is arg_max of floats, but 0xffffffff where a row holds a NaN, +Inf or nothing
// finite.
class ReduceCall : public CallOf<ReduceOp> {
  public:
    static constexpr int32_t kOp = 26;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_reduce(Lowering &lowering, const ReduceCall &call);

// Over the last axis; weight [cols].
class RMSNormCall : public CallOf<RMSNormOp> {
  public:
    static constexpr int32_t kOp = 27;
    enum Operand : uint32_t { kX, kWeight, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"weight", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &weight() const { return at(kWeight); }
    const Array &out() const { return at(kOut); }
};
void lower_rms_norm(Lowering &lowering, const RMSNormCall &call);

// x, out [B, H, T, D], offset int32 [1] or [B], freqs float32 [dims/2]. The angle of position t and pair i is (offset +
// t) * scale * base^(-2i/dims), or (offset + t) * scale / freqs[i]. offset of the struct applies if the array is
// absent.
class RoPECall : public CallOf<RoPEOp> {
  public:
    static constexpr int32_t kOp = 28;
    enum Operand : uint32_t { kX, kOffset, kFreqs, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"offset", KPX_READ, true},
        {"freqs", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &offset() const { return at(kOffset); }
    const Array &freqs() const { return at(kFreqs); }
    const Array &out() const { return at(kOut); }
};
void lower_rope(Lowering &lowering, const RoPECall &call);

// logits [..., V], params uint32 [SAMPLE_PARAMS_SIZE], or for logits [N, V] one for each row, [N, SAMPLE_PARAMS_SIZE];
// step int32 [1], out uint32 [...]. One draw from each row, as fallback/sample.go says; 0xffffffff where a row holds a
// NaN, +Inf or nothing finite. step of the struct applies if the array is absent.
class SampleCall : public CallOf<SampleOp> {
  public:
    static constexpr int32_t kOp = 29;
    enum Operand : uint32_t { kLogits, kParams, kStep, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"logits", KPX_READ, false},
        {"params", KPX_READ, false},
        {"step", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &logits() const { return at(kLogits); }
    const Array &params() const { return at(kParams); }
    const Array &step() const { return at(kStep); }
    const Array &out() const { return at(kOut); }
};
void lower_sample(Lowering &lowering, const SampleCall &call);

// One shape and dtype of numbers. Along axis, out has the sum or product of all elements of x up to this one: without
// it if exclusive, and from the end if reverse.
class ScanCall : public CallOf<ScanOp> {
  public:
    static constexpr int32_t kOp = 30;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_scan(Lowering &lowering, const ScanCall &call);

// x [pre…, V, post…], indices (int32 or uint32), updates [pre…, indices…, post…], out (x's shape). out is x with
// updates[…, i, …] put at out[…, indices[i], …], combined as mode says. axis is V's. along: indices have updates'
// shape, with one axis for V, and each column its own. A negative index counts from the end; one out of range has no
// effect.
class ScatterCall : public CallOf<ScatterOp> {
  public:
    static constexpr int32_t kOp = 31;
    enum Operand : uint32_t { kX, kIndices, kUpdates, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"indices", KPX_READ, false},
        {"updates", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &indices() const { return at(kIndices); }
    const Array &updates() const { return at(kUpdates); }
    const Array &out() const { return at(kOut); }
};
void lower_scatter(Lowering &lowering, const ScatterCall &call);

// q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv], mask bool or float [B, Hq, Tq, Tk] (broadcast by the
// caller), key_length int32 [1], out [B, Hq, Tq, Dv]. k and v are of one float type, q and out of one, too. Keys at or
// past key_length do not exist. causal: query i sees keys up to L - Tq + i, where L is the key length. A query that
// sees no key gives zeros. Values of keys that it does not see do not matter, even if they are not finite.
class SDPACall : public CallOf<SDPAOp> {
  public:
    static constexpr int32_t kOp = 32;
    enum Operand : uint32_t { kQ, kK, kV, kMask, kKeyLength, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"q", KPX_READ, false},
        {"k", KPX_READ, false},
        {"v", KPX_READ, false},
        {"mask", KPX_READ, true},
        {"key_length", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &q() const { return at(kQ); }
    const Array &k() const { return at(kK); }
    const Array &v() const { return at(kV); }
    const Array &mask() const { return at(kMask); }
    const Array &key_length() const { return at(kKeyLength); }
    const Array &out() const { return at(kOut); }
};
void lower_sdpa(Lowering &lowering, const SDPACall &call);

// out = gate * sigmoid(gate) * up. All of one shape.
class SiLUMulCall : public CallOf<SiLUMulOp> {
  public:
    static constexpr int32_t kOp = 33;
    enum Operand : uint32_t { kGate, kUp, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"gate", KPX_READ, false},
        {"up", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &gate() const { return at(kGate); }
    const Array &up() const { return at(kUp); }
    const Array &out() const { return at(kOut); }
};
void lower_silu_mul(Lowering &lowering, const SiLUMulCall &call);

// start int32 [rank], out (x's rank). out = the part of x that begins at start; start of the struct applies if the
// array is absent. It is clamped so that the part fits, as in slice_update.
class SliceCall : public CallOf<SliceOp> {
  public:
    static constexpr int32_t kOp = 34;
    enum Operand : uint32_t { kX, kStart, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"start", KPX_READ, true},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &start() const { return at(kStart); }
    const Array &out() const { return at(kOut); }
};
void lower_slice(Lowering &lowering, const SliceCall &call);

// update (dst's rank), start int32 [rank]; start of the struct applies if the array is absent. A start is clamped so
// that the update fits, as in XLA.
class SliceUpdateCall : public CallOf<SliceUpdateOp> {
  public:
    static constexpr int32_t kOp = 35;
    enum Operand : uint32_t { kDst, kUpdate, kStart };
    static constexpr OperandInfo kOperands[] = {
        {"dst", KPX_READ_WRITE, false},
        {"update", KPX_READ, false},
        {"start", KPX_READ, true},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &dst() const { return at(kDst); }
    const Array &update() const { return at(kUpdate); }
    const Array &start() const { return at(kStart); }
};
void lower_slice_update(Lowering &lowering, const SliceUpdateCall &call);

// Over the last axis.
class SoftmaxCall : public CallOf<SoftmaxOp> {
  public:
    static constexpr int32_t kOp = 36;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_softmax(Lowering &lowering, const SoftmaxCall &call);

// counts uint32 [S, V], rows int32 [N], tokens and amounts uint32 [N]. counts[rows[n], tokens[n]] += amounts[n],
// wrapping around, for each n whose place exists.
class TallyCall : public CallOf<TallyOp> {
  public:
    static constexpr int32_t kOp = 37;
    enum Operand : uint32_t { kCounts, kRows, kTokens, kAmounts };
    static constexpr OperandInfo kOperands[] = {
        {"counts", KPX_READ_WRITE, false},
        {"rows", KPX_READ, false},
        {"tokens", KPX_READ, false},
        {"amounts", KPX_READ, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &counts() const { return at(kCounts); }
    const Array &rows() const { return at(kRows); }
    const Array &tokens() const { return at(kTokens); }
    const Array &amounts() const { return at(kAmounts); }
};
void lower_tally(Lowering &lowering, const TallyCall &call);

// One shape.
class UnaryCall : public CallOf<UnaryOp> {
  public:
    static constexpr int32_t kOp = 38;
    enum Operand : uint32_t { kX, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"x", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &x() const { return at(kX); }
    const Array &out() const { return at(kOut); }
};
void lower_unary(Lowering &lowering, const UnaryCall &call);

// condition (bool), a, b, out. All of one shape (the caller broadcasts); a, b and out of one dtype.
class WhereCall : public CallOf<WhereOp> {
  public:
    static constexpr int32_t kOp = 39;
    enum Operand : uint32_t { kCondition, kA, kB, kOut };
    static constexpr OperandInfo kOperands[] = {
        {"condition", KPX_READ, false},
        {"a", KPX_READ, false},
        {"b", KPX_READ, false},
        {"out", KPX_WRITE, false},
    };
    static constexpr bool kVariadic = false; // whether the first operand may be repeated
    using CallOf::CallOf;

    const Array &condition() const { return at(kCondition); }
    const Array &a() const { return at(kA); }
    const Array &b() const { return at(kB); }
    const Array &out() const { return at(kOut); }
};
void lower_where(Lowering &lowering, const WhereCall &call);

inline constexpr const char *kDTypeNames[] = {"unknown", "float32", "float16", "bfloat16", "int32", "uint32", "bool", "uint8", };

// ROW(name, Name) for every op, in the order of their numbers.
#define KPX_OPS(ROW) \
    ROW(arange, Arange) \
    ROW(attention_projection, AttentionProjection) \
    ROW(attention_step, AttentionStep) \
    ROW(binary, Binary) \
    ROW(cast, Cast) \
    ROW(concat, Concat) \
    ROW(copy, Copy) \
    ROW(dequantize, Dequantize) \
    ROW(fill, Fill) \
    ROW(gather, Gather) \
    ROW(gather_axis, GatherAxis) \
    ROW(layer_norm, LayerNorm) \
    ROW(mask, Mask) \
    ROW(matmul, MatMul) \
    ROW(pad, Pad) \
    ROW(paged_heads, PagedHeads) \
    ROW(paged_sdpa, PagedSDPA) \
    ROW(paged_step, PagedStep) \
    ROW(paged_update, PagedUpdate) \
    ROW(penalize, Penalize) \
    ROW(projection, Projection) \
    ROW(qkv_heads, QKVHeads) \
    ROW(quantize, Quantize) \
    ROW(quantized_gather, QuantizedGather) \
    ROW(quantized_matmul, QuantizedMatMul) \
    ROW(random, Random) \
    ROW(reduce, Reduce) \
    ROW(rms_norm, RMSNorm) \
    ROW(rope, RoPE) \
    ROW(sample, Sample) \
    ROW(scan, Scan) \
    ROW(scatter, Scatter) \
    ROW(sdpa, SDPA) \
    ROW(silu_mul, SiLUMul) \
    ROW(slice, Slice) \
    ROW(slice_update, SliceUpdate) \
    ROW(softmax, Softmax) \
    ROW(tally, Tally) \
    ROW(unary, Unary) \
    ROW(where, Where)

} // namespace kpx
