#include "ops/lowering_util.hpp"
#include "ops/paged.hpp"

namespace kpx {

namespace {

constexpr int64_t kMostElements = 512; // the most elements of a head: two for each thread

// Whether it consists of rows of heads with contiguous elements.
bool is_heads(const Array &x, int64_t rows, int64_t heads, int64_t d) {
    return x.rank == 3 && x.dim(0) == rows && x.dim(1) == heads && x.dim(2) == d && x.stride(2) == 1;
}

bool is_pages(const Array &x, int64_t heads, int64_t d) {
    return x.rank == 4 && x.dim(1) == heads && x.stride(3) == 1 && x.dim(3) == cache_row(x.dtype, d);
}

// Whether it has n contiguous numbers, or is absent.
bool is_vector(const Array &x, uint32_t dtype, int64_t n) {
    return !x || (x.rank == 1 && x.dim(0) == n && x.dtype == dtype && (n == 1 || x.stride(0) == 1));
}

} // namespace

void check_paged_heads(const Lowering &lowering, const PagedHeadsCall &s) {
    const Array &q = s.q(), &k = s.k();
    const DeviceTraits &device = lowering.device();
    check_operands({&q, &k, &s.v(), &s.q_gain(), &s.k_gain(), &s.position()});
    check_operands({&s.freqs(), &s.slots(), &s.keys(), &s.values(), &s.out()});
    for (const Array *x : {&q, &k, &s.v(), &s.q_gain(), &s.k_gain(), &s.out()}) {
        if (*x && (x->dtype != q.dtype || !is_float(x->dtype))) {
            unsupported("operands of {} and {}", dtype_name(q.dtype), dtype_name(x->dtype));
        }
    }
    if (!is_cache_dtype(s.keys().dtype) || s.values().dtype != s.keys().dtype) {
        invalid("keys of {} and values of {}", dtype_name(s.keys().dtype), dtype_name(s.values().dtype));
    }
    const int64_t rows = q.dim(0), d = q.rank == 3 ? q.dim(2) : 0, heads = k.rank == 3 ? k.dim(1) : 0;
    if (d < 2 || d % 2 != 0 || d > kMostElements || d / 2 > int64_t(device.max_workgroup_invocations) || heads == 0 ||
        rows == 0 || q.dim(1) == 0) {
        unsupported("{} rows of heads of {} elements", rows, d);
    }
    if (!is_heads(q, rows, q.dim(1), d) || !is_heads(k, rows, heads, d) || !is_heads(s.v(), rows, heads, d) ||
        !is_pages(s.keys(), heads, d) || !is_pages(s.values(), heads, d) || !s.out().contiguous() ||
        !same_shape(s.out(), q)) {
        unsupported("elements of heads are not side by side, or values differ from keys in length");
    }
    if (s.keys().dim(0) != s.values().dim(0) || s.keys().dim(2) != s.values().dim(2)) {
        invalid("keys and values are of different pages");
    }
    check_cache_words(s.keys());
    check_cache_words(s.values());
    const Array &position = s.position();
    if (!is_vector(s.q_gain(), q.dtype, d) || !is_vector(s.k_gain(), q.dtype, d) ||
        !is_vector(s.freqs(), DT_FLOAT32, s.op().dims / 2) || !is_vector(s.slots(), DT_INT32, rows) ||
        (!is_vector(position, DT_INT32, 1) && !is_vector(position, DT_INT32, rows))) {
        unsupported("gains, freqs, slots or positions are not vectors of the required length");
    }
    if (s.op().dims % 2 != 0 || s.op().dims > d) {
        invalid("{} rotated elements of heads of {}", s.op().dims, d);
    }
}

uint32_t paged_heads_flags(const PagedHeadsCall &s) {
    const auto flag = [](bool on, uint32_t bit) { return on ? bit : 0; };
    const PagedHeadsOp &op = s.op();
    return flag(op.q_norm, STEP_Q_NORM) | flag(op.k_norm, STEP_K_NORM) | flag(bool(s.q_gain()), STEP_Q_GAIN) |
           flag(bool(s.k_gain()), STEP_K_GAIN) | flag(bool(s.position()), STEP_DEVICE_POSITION) |
           flag(s.position() && s.position().dim(0) > 1, STEP_POSITIONS) | flag(bool(s.freqs()), STEP_FREQS) |
           flag(op.traditional, STEP_TRADITIONAL);
}

namespace {

PagedHeadsParams params_of(const PagedHeadsCall &s) {
    PagedHeadsParams p{};
    fill_heads(p, s, s.op());
    p.rows = uint32_t(s.q().dim(0));
    fill(p.q_strides, 2, s.q().strides, 2, 0);
    fill(p.k_strides, 2, s.k().strides, 2, 0);
    fill(p.v_strides, 2, s.v().strides, 2, 0);
    fill(p.keys_strides, 3, s.keys().strides, 3, 0);
    fill(p.values_strides, 3, s.values().strides, 3, 0);
    p.page = uint32_t(s.keys().dim(2));
    p.places = uint32_t(s.keys().dim(0) * s.keys().dim(2));
    return p;
}

} // namespace

void dispatch_paged_heads(Lowering &lowering, const PagedHeadsCall &s, const HeadSums &of) {
    check_paged_heads(lowering, s);
    const uint32_t heads = uint32_t(s.q().dim(1)), kv_heads = uint32_t(s.k().dim(1)), d = uint32_t(s.q().dim(2));
    uint32_t threads = 32;
    while (threads < d / 2) {
        threads *= 2;
    }
    const auto [q, k, v] = bound_heads(s, of, false);
    const auto or_keys = [&](const Array &x) { return Binding{x ? x : s.keys(), KPX_READ}; };
    lowering.dispatch(spec::paged_heads{.threads = threads,
                                        .q_dtype = s.q().dtype,
                                        .keys_dtype = s.keys().dtype,
                                        .d = d,
                                        .dims = s.op().dims,
                                        .heads = heads,
                                        .kv_heads = kv_heads,
                                        .flags = paged_heads_flags(s),
                                        HEAD_SUMS_CONSTANTS(of)},
                      {.q = q,
                       .k = k,
                       .v = v,
                       .q_gain = or_keys(s.q_gain()),
                       .k_gain = or_keys(s.k_gain()),
                       .positions = or_keys(s.position()),
                       .freqs = or_keys(s.freqs()),
                       .slots = {s.slots(), KPX_READ},
                       .keys = {s.keys(), KPX_READ_WRITE},
                       .values = {s.values(), KPX_READ_WRITE},
                       .y = {s.out(), KPX_WRITE}},
                      params_of(s), grid_1d(lowering.device(), s.q().dim(0) * (heads + 2 * kv_heads)));
}

void lower_paged_heads(Lowering &lowering, const PagedHeadsCall &s) {
    dispatch_paged_heads(lowering, s, {});
}

} // namespace kpx
