// Arrays: q, k, v, q_gain?, k_gain?, position?, start?, key_length?, freqs?, keys, values, out.
#include <algorithm>
#include <cstdlib>

#include "ops/rotary.hpp"

namespace kpx {

namespace {

constexpr uint32_t kThreads = 256;          // THREADS of attention_step.comp
constexpr uint32_t kChunk = 64;             // keys that a workgroup takes at a time
constexpr int64_t kMostSplits = 64;         // MOST_SPLITS
constexpr int64_t kMostHeads = 4;           // query heads of a workgroup
constexpr int64_t kFewKeys = 640;           // up to here a workgroup for each query head is faster
constexpr int64_t kMostChunks = 60000;      // of a workgroup: keeps its loop short
constexpr uint32_t kSharedBytes = 32 << 10; // what the kernel may take

struct Step {
    const Array &q, &k, &v, &q_gain, &k_gain, &position, &start, &length, &freqs, &keys, &values, &out;
    const AttentionStepOp &op;
};

bool is_index(const Array &x, int64_t n) {
    return !x || (x.dtype == DT_INT32 && x.rank == 1 && x.dim(0) == n);
}

// Rows of d elements side by side.
bool is_heads(const Array &x, int64_t d) {
    return x.rank == 2 && x.dim(1) == d && x.stride(1) == 1;
}

bool is_gain(const Array &x, int64_t d) {
    return !x || (x.rank == 1 && x.dim(0) == d && x.stride(0) == 1);
}

// Whether the kernel may read it by quads.
bool is_cache(const Array &x, int64_t heads, int64_t d) {
    return x.rank == 4 && x.dim(0) == 1 && x.dim(1) == heads && x.dim(3) == d && x.stride(3) == 1 &&
           x.stride(1) % 4 == 0 && x.stride(2) % 4 == 0 && x.offset % 4 == 0;
}

Support check_shapes(const Step &s) {
    const int64_t d = s.q.rank == 2 ? s.q.dim(1) : 0, heads = s.k.rank == 2 ? s.k.dim(0) : 0;
    if (d < 4 || d > 256 || d % 4 != 0 || s.op.dims % 2 != 0 || s.op.dims > d) {
        return unsupported("heads of %lld elements", (long long)d);
    }
    if (!is_heads(s.q, d) || !is_heads(s.k, d) || !is_heads(s.v, d) || !is_heads(s.out, d)) {
        return unsupported("q, k, v and out must be rows of heads");
    }
    if (heads == 0 || s.q.dim(0) == 0 || s.q.dim(0) % heads != 0 || s.v.dim(0) != heads || s.out.dim(0) != s.q.dim(0)) {
        return unsupported("the numbers of heads do not fit");
    }
    if (!is_gain(s.q_gain, d) || !is_gain(s.k_gain, d) || !is_index(s.position, 1) || !is_index(s.start, 4) ||
        !is_index(s.length, 1)) {
        return unsupported("gains or positions do not fit");
    }
    if (s.freqs && (s.freqs.dtype != DT_FLOAT32 || s.freqs.rank != 1 || s.freqs.dim(0) != s.op.dims / 2)) {
        return unsupported("freqs must be float32 [dims/2]");
    }
    if (!is_cache(s.keys, heads, d) || !is_cache(s.values, heads, d) || s.keys.dim(2) != s.values.dim(2) ||
        s.keys.dim(2) == 0 || int64_t(s.op.keys) > s.keys.dim(2)) {
        return unsupported("keys and values must be [1, Hkv, capacity, D] with rows side by side");
    }
    return supported();
}

Support check_step(const Lowering &lowering, const Step &s) {
    for (const Array *x : {&s.q, &s.k, &s.v, &s.q_gain, &s.k_gain, &s.keys, &s.values, &s.out}) {
        if (*x && (x->dtype != s.q.dtype || !is_float(x->dtype))) {
            return unsupported("operands of %s and %s", dtype_name(s.q.dtype), dtype_name(x->dtype));
        }
    }
    const DeviceTraits &device = lowering.device();
    if (device.is_cpu && getenv("KOMPUTE_GO_FUSION_ON_CPU") == nullptr) { // tests ask for it
        return unsupported("on a CPU its parts are faster: they need fewer barriers inside a workgroup");
    }
    if (device.max_workgroup_invocations < kThreads || device.max_shared_bytes < kSharedBytes) {
        return unsupported("the device's workgroups are too small");
    }
    if (Support ok = check_operands(lowering, {&s.q, &s.k, &s.v, &s.q_gain, &s.k_gain, &s.position}); !ok.ok()) {
        return ok;
    }
    if (Support ok = check_operands(lowering, {&s.start, &s.length, &s.freqs, &s.keys, &s.values, &s.out}); !ok.ok()) {
        return ok;
    }
    return check_shapes(s);
}

uint32_t flags_of(const Step &s) {
    const auto flag = [](bool on, uint32_t bit) { return on ? bit : 0; };
    return flag(s.op.q_norm, STEP_Q_NORM) | flag(s.op.k_norm, STEP_K_NORM) | flag(bool(s.q_gain), STEP_Q_GAIN) |
           flag(bool(s.k_gain), STEP_K_GAIN) | flag(bool(s.position), STEP_DEVICE_POSITION) |
           flag(bool(s.start), STEP_DEVICE_START) | flag(bool(s.length), STEP_DEVICE_LENGTH) |
           flag(bool(s.freqs), STEP_FREQS) | flag(s.op.traditional, STEP_TRADITIONAL);
}

AttentionStepParams params_of(const Step &s) {
    AttentionStepParams p{};
    p.dims = s.op.dims;
    p.capacity = uint32_t(s.keys.dim(2));
    p.keys = s.op.keys;
    p.q_offset = uint32_t(s.q.offset);
    p.q_stride = uint32_t(s.q.stride(0));
    p.k_offset = uint32_t(s.k.offset);
    p.k_stride = uint32_t(s.k.stride(0));
    p.v_offset = uint32_t(s.v.offset);
    p.v_stride = uint32_t(s.v.stride(0));
    p.q_gain_offset = uint32_t(s.q_gain.offset);
    p.k_gain_offset = uint32_t(s.k_gain.offset);
    p.freqs_offset = uint32_t(s.freqs.offset);
    p.freqs_stride = uint32_t(s.freqs.strides[0]);
    p.keys_offset = uint32_t(s.keys.offset);
    p.values_offset = uint32_t(s.values.offset);
    for (int i = 0; i < 2; i++) {
        p.keys_strides[i] = uint32_t(s.keys.stride(1 + i));
        p.values_strides[i] = uint32_t(s.values.stride(1 + i));
    }
    p.out_offset = uint32_t(s.out.offset);
    p.out_stride = uint32_t(s.out.stride(0));
    p.position = s.position ? int32_t(s.position.offset) : s.op.position;
    p.start = s.start ? int32_t(s.start.offset + 2 * s.start.stride(0)) : s.op.start; // axis 2 counts tokens
    p.length_at = int32_t(s.length.offset);
    p.scale = s.op.scale;
    p.rope_scale = s.op.rope_scale;
    rotary_step(s.op.base, s.op.dims, p.step_high, p.step_low);
    p.q_eps = s.op.q_eps;
    p.k_eps = s.op.k_eps;
    return p;
}

uint32_t power_of_two_from(int64_t n) {
    uint32_t power = 4;
    while (power < n) {
        power *= 2;
    }
    return power;
}

} // namespace

Support lower_attention_step(Lowering &lowering, const OpCall &call) {
    if (Support ok = check_call<AttentionStepOp>(call, 12, 0x1f8); !ok.ok()) {
        return ok;
    }
    const Array *a = call.arrays;
    const Step s{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], *call.as<AttentionStepOp>()};
    if (Support ok = check_step(lowering, s); !ok.ok()) {
        return ok;
    }
    const int64_t d = s.q.dim(1), group = s.q.dim(0) / s.k.dim(0);
    int64_t heads = int64_t(s.op.keys) <= kFewKeys ? 1 : std::min(group, kMostHeads); // of more they share the loads
    while (group % heads != 0) {
        heads--;
    }
    // By what the cache holds, not by the length, which the device alone may know.
    const int64_t chunks = std::max<int64_t>(1, (int64_t(s.op.keys) + kChunk - 1) / kChunk);
    const int64_t splits = std::min(chunks, kMostSplits), teams = s.q.dim(0) / heads;
    if (chunks / splits > kMostChunks || teams > lowering.device().max_workgroup_count[0]) {
        return unsupported("a cache of %lld tokens for %lld heads", (long long)s.keys.dim(2), (long long)s.q.dim(0));
    }
    const Array parts = splits > 1 ? lowering.scratch(DT_FLOAT32, {teams, splits, heads * (d + 4)}) : s.q;
    const Array arrivals = splits > 1 ? lowering.counters(teams) : s.q;
    const auto or_q = [&](const Array &x) -> const Array & { return x ? x : s.q; };
    lowering.dispatch("attention_step",
                      {kThreads, s.q.dtype, uint32_t(d), uint32_t(heads), uint32_t(group / heads), flags_of(s),
                       power_of_two_from(d / 4), kChunk},
                      {{s.q, KPX_READ},
                       {s.k, KPX_READ},
                       {s.v, KPX_READ},
                       {or_q(s.q_gain), KPX_READ},
                       {or_q(s.k_gain), KPX_READ},
                       {or_q(s.position), KPX_READ},
                       {or_q(s.start), KPX_READ},
                       {or_q(s.length), KPX_READ},
                       {or_q(s.freqs), KPX_READ},
                       {s.keys, KPX_READ_WRITE},
                       {s.values, KPX_READ_WRITE},
                       {s.out, KPX_WRITE},
                       {parts, splits > 1 ? KPX_WRITE : KPX_READ},
                       {arrivals, splits > 1 ? KPX_READ_WRITE : KPX_READ}},
                      params_of(s), {uint32_t(teams), uint32_t(splits), 1});
    return supported();
}

} // namespace kpx
