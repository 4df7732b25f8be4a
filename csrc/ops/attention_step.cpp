#include <algorithm>

#include "ops/attention_step.hpp"
#include "ops/rotary.hpp"

namespace kpx {

namespace {

constexpr uint32_t kThreads = 256;          // THREADS of attention_step.comp
constexpr uint32_t kChunk = 64;             // keys that a workgroup takes at a time
constexpr int64_t kMostSplits = 64;         // MOST_SPLITS
constexpr int64_t kLeastSplits = 8;         // of a long cache
constexpr int64_t kGroups = 256;            // workgroups to aim for with a long cache, within these bounds on splits
constexpr int64_t kMostHeads = 2;           // query heads of a workgroup: four would take too many registers
constexpr int64_t kMostChunks = 60000;      // of a workgroup: bounds the length of its loop
constexpr uint32_t kSharedBytes = 32 << 10; // a limit of the kernel

using Step = AttentionStepCall;

bool is_index(const Array &x, int64_t n) {
    return !x || (x.dtype == DT_INT32 && x.rank == 1 && x.dim(0) == n);
}

int64_t chunks_of(const AttentionStepOp &op) {
    return std::max<int64_t>(1, (int64_t(op.keys) + kChunk - 1) / kChunk);
}

// Whether it consists of contiguous rows of d elements.
bool is_heads(const Array &x, int64_t d) {
    return x.rank == 2 && x.dim(1) == d && x.stride(1) == 1;
}

bool is_gain(const Array &x, int64_t d) {
    return !x || (x.rank == 1 && x.dim(0) == d && x.stride(0) == 1);
}

// Whether the kernel may read it four elements at a time.
bool is_cache(const Array &x, int64_t heads, int64_t d) {
    return x.rank == 4 && x.dim(0) == 1 && x.dim(1) == heads && x.dim(3) == d && quads_in_rows(x);
}

void check_shapes(const Step &s) {
    const uint32_t dims = s.op().dims;
    const int64_t d = s.q().rank == 2 ? s.q().dim(1) : 0, heads = s.k().rank == 2 ? s.k().dim(0) : 0;
    if (d < 4 || d > 256 || d % 4 != 0 || !is_heads(s.q(), d) || !is_heads(s.k(), d) || !is_heads(s.v(), d)) {
        unsupported("q, k and v are not contiguous rows of heads of {} elements", d);
    }
    if (dims % 2 != 0 || dims > d) {
        invalid("{} rotated elements of heads of {}", dims, d);
    }
    if (heads == 0 || s.q().dim(0) == 0 || s.q().dim(0) % heads != 0 || s.v().dim(0) != heads) {
        invalid("{} query heads for {} and {} of keys and values", s.q().dim(0), heads, s.v().dim(0));
    }
    if (!is_gain(s.q_gain(), d) || !is_gain(s.k_gain(), d)) {
        unsupported("the gains are not {} contiguous elements", d);
    }
    if (!is_index(s.position(), 1) || !is_index(s.start(), 4) || !is_index(s.key_length(), 1)) {
        invalid("position and key_length must be int32 [1], start int32 [4]");
    }
    if (s.freqs() && (s.freqs().dtype != DT_FLOAT32 || s.freqs().rank != 1 || s.freqs().dim(0) != dims / 2)) {
        invalid("freqs must be float32 [dims/2]");
    }
    if (!is_cache(s.keys(), heads, d) || !is_cache(s.values(), heads, d)) {
        unsupported("keys and values are not [1, {}, capacity, {}] with contiguous rows", heads, d);
    }
    if (s.keys().dim(2) != s.values().dim(2) || s.keys().dim(2) == 0 || int64_t(s.op().keys) > s.keys().dim(2)) {
        invalid("{} keys in caches of {} and {}", s.op().keys, s.keys().dim(2), s.values().dim(2));
    }
}

} // namespace

void check_attention_step(const Lowering &lowering, const Step &s) {
    const DeviceTraits &device = lowering.device();
    if (device.is_cpu && !device.as_gpu) {
        unsupported("on a CPU driver, separate ops are faster: they need fewer barriers inside a workgroup");
    }
    for (const Array *x : {&s.q(), &s.k(), &s.v(), &s.q_gain(), &s.k_gain(), &s.keys(), &s.values()}) {
        if (*x && (x->dtype != s.q().dtype || !is_float(x->dtype))) {
            unsupported("operands of {} and {}", dtype_name(s.q().dtype), dtype_name(x->dtype));
        }
    }
    if (device.max_workgroup_invocations < kThreads || device.max_shared_bytes < kSharedBytes) {
        unsupported("the device's workgroups are too small");
    }
    check_operands({&s.q(), &s.k(), &s.v(), &s.q_gain(), &s.k_gain(), &s.position()});
    check_operands({&s.start(), &s.key_length(), &s.freqs(), &s.keys(), &s.values()});
    check_shapes(s);
    if (chunks_of(s.op()) / kMostSplits > kMostChunks || s.q().dim(0) > device.max_workgroup_count[0]) {
        unsupported("a cache of {} tokens for {} heads", s.op().keys, s.q().dim(0));
    }
}

// How many of the query heads that share a key head one workgroup takes: it reads their keys once.
static int64_t heads_together(const Step &s) {
    const int64_t group = s.q().dim(0) / s.k().dim(0);
    int64_t heads = std::min(group, kMostHeads);
    while (group % heads != 0) {
        heads--;
    }
    return heads;
}

uint32_t attention_splits(const AttentionStepCall &s) {
    const int64_t groups = s.q().dim(0) / heads_together(s);
    const int64_t most = std::clamp(kGroups / groups, kLeastSplits, kMostSplits);
    return uint32_t(std::min(chunks_of(s.op()), most));
}

namespace {

uint32_t flags_of(const Step &s) {
    const AttentionStepOp &op = s.op();
    const auto flag = [](bool on, uint32_t bit) { return on ? bit : 0; };
    return flag(op.q_norm, STEP_Q_NORM) | flag(op.k_norm, STEP_K_NORM) | flag(bool(s.q_gain()), STEP_Q_GAIN) |
           flag(bool(s.k_gain()), STEP_K_GAIN) | flag(bool(s.position()), STEP_DEVICE_POSITION) |
           flag(bool(s.start()), STEP_DEVICE_START) | flag(bool(s.key_length()), STEP_DEVICE_LENGTH) |
           flag(bool(s.freqs()), STEP_FREQS) | flag(op.traditional, STEP_TRADITIONAL);
}

AttentionStepParams params_of(const Step &s) {
    const AttentionStepOp &op = s.op();
    AttentionStepParams p{};
    p.dims = op.dims;
    p.capacity = uint32_t(s.keys().dim(2));
    p.keys = op.keys;
    p.q_offset = uint32_t(s.q().offset);
    p.q_stride = uint32_t(s.q().stride(0));
    p.k_offset = uint32_t(s.k().offset);
    p.k_stride = uint32_t(s.k().stride(0));
    p.v_offset = uint32_t(s.v().offset);
    p.v_stride = uint32_t(s.v().stride(0));
    p.q_gain_offset = uint32_t(s.q_gain().offset);
    p.k_gain_offset = uint32_t(s.k_gain().offset);
    p.freqs_offset = uint32_t(s.freqs().offset);
    p.freqs_stride = uint32_t(s.freqs().strides[0]);
    p.keys_offset = uint32_t(s.keys().offset);
    p.values_offset = uint32_t(s.values().offset);
    for (int i = 0; i < 2; i++) {
        p.keys_strides[i] = uint32_t(s.keys().stride(1 + i));
        p.values_strides[i] = uint32_t(s.values().stride(1 + i));
    }
    p.position = s.position() ? int32_t(s.position().offset) : op.position;
    p.start = s.start() ? int32_t(s.start().offset + 2 * s.start().stride(0)) : op.start; // axis 2 counts tokens
    p.length_at = int32_t(s.key_length().offset);
    p.scale = op.scale;
    p.rope_scale = op.rope_scale;
    rotary_step(op.base, op.dims, p.step_high, p.step_low);
    p.q_eps = op.q_eps;
    p.k_eps = op.k_eps;
    return p;
}

uint32_t power_of_two_from(int64_t n) {
    uint32_t power = 4;
    while (power < n) {
        power *= 2;
    }
    return power;
}

// Launches the kernel with these numbers of heads per workgroup and of splits. The result is either the parts or out.
// The keys are bound in place of absent arrays.
struct Launch {
    uint32_t heads, splits;
    bool gives_parts;
    const Array &out, &parts, &arrivals;
};

void launch(Lowering &lowering, const Step &s, const Launch &l) {
    const uint32_t group = uint32_t(s.q().dim(0) / s.k().dim(0)), d = uint32_t(s.q().dim(1));
    AttentionStepParams p = params_of(s);
    p.out_offset = uint32_t(l.out.offset);
    p.out_stride = uint32_t(l.out.stride(0));
    const bool combines = l.splits > 1 && !l.gives_parts, overlaps = s.q().dtype == DT_FLOAT32;
    const auto or_keys = [&](const Array &x) -> const Array & { return x ? x : s.keys(); };
    lowering.dispatch(spec::attention_step{.threads = kThreads,
                                           .dtype = s.q().dtype,
                                           .d = d,
                                           .heads = l.heads,
                                           .share = group / l.heads,
                                           .flags = flags_of(s),
                                           .v_lanes = power_of_two_from(d / 4),
                                           .chunk = kChunk,
                                           .parts = l.gives_parts,
                                           .overlap = 0},
                      {.q = {s.q(), KPX_READ, overlaps},
                       .k = {s.k(), KPX_READ, overlaps},
                       .v = {s.v(), KPX_READ, overlaps},
                       .q_gain = {or_keys(s.q_gain()), KPX_READ},
                       .k_gain = {or_keys(s.k_gain()), KPX_READ},
                       .positions = {or_keys(s.position()), KPX_READ},
                       .starts = {or_keys(s.start()), KPX_READ},
                       .lengths = {or_keys(s.key_length()), KPX_READ},
                       .freqs = {or_keys(s.freqs()), KPX_READ},
                       .keys = {s.keys(), KPX_READ_WRITE},
                       .values = {s.values(), KPX_READ_WRITE},
                       .y = {l.out, l.gives_parts ? KPX_READ : KPX_WRITE, overlaps && !l.gives_parts},
                       .parts = {l.parts, l.splits > 1 ? KPX_WRITE : KPX_READ},
                       .arrivals = {l.arrivals, combines ? KPX_READ_WRITE : KPX_READ}},
                      p, {uint32_t(s.q().dim(0)) / l.heads, l.splits, 1});
}

} // namespace

void dispatch_attention_step(Lowering &lowering, const Step &s, const Array &out) {
    const int64_t heads = heads_together(s), d = s.q().dim(1);
    const uint32_t splits = attention_splits(s);
    const bool split = splits > 1;
    const Array parts = split ? lowering.scratch(DT_FLOAT32, {s.q().dim(0), splits, d + 4}) : s.keys();
    const Array arrivals = split ? lowering.counters(s.q().dim(0) / heads) : s.keys();
    launch(lowering, s, {uint32_t(heads), splits, false, out, parts, arrivals});
}

void dispatch_attention_parts(Lowering &lowering, const Step &s, const Array &parts, uint32_t splits) {
    launch(lowering, s, {uint32_t(heads_together(s)), splits, true, s.keys(), parts, s.keys()});
}

void lower_attention_step(Lowering &lowering, const AttentionStepCall &call) {
    const Array &out = call.out();
    check_attention_step(lowering, call);
    check_operands({&out});
    if (out.dtype != call.q().dtype || !is_heads(out, call.q().dim(1)) || out.dim(0) != call.q().dim(0)) {
        unsupported("out does not consist of rows of heads like q");
    }
    dispatch_attention_step(lowering, call, out);
}

} // namespace kpx
