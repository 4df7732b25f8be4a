#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

const char *dtype_name(uint32_t dtype) {
    return dtype < std::size(kDTypeNames) ? kDTypeNames[dtype] : "unknown";
}

// Whether the offset of every element in the storage fits 32 bits.
static bool fits_32_bits(const Array &x) {
    return x.size() <= INT32_MAX && x.last() <= int64_t(UINT32_MAX);
}

void check_operands(std::initializer_list<const Array *> arrays) {
    for (const Array *x : arrays) {
        if (!*x)
            continue;
        if (x->dtype < DT_FLOAT32 || x->dtype > DT_UINT8)
            invalid("unknown dtype {}", x->dtype);
        if (!fits_32_bits(*x))
            unsupported("an operand of {} elements exceeds 32-bit indexing", x->size());
    }
}

bool prefers_lanes(const Lowering &lowering, const char *kernel) {
    const DeviceTraits &device = lowering.device();
    return device.is_cpu && device.subgroup_size == LANES && lowering.has_kernel(kernel) && !device.as_gpu;
}

uint32_t rows_of_lane(int64_t rows, uint32_t most) {
    constexpr int64_t kGroups = 16;
    while (most > 1 && rows < kGroups * LANES * most) {
        most /= 2;
    }
    return most;
}

int64_t lane_rounds(int64_t cols, int64_t group, int64_t results) {
    constexpr int64_t kOfUnit = 50; // rounds of SUM_NOT_FINITE for 32 columns none of which is finite
    return cols / 32 + 2 * cols / group + results * (cols / 32 * kOfUnit + 1);
}

bool same_leading(const Array &a, const Array &b, uint32_t axes) {
    return std::equal(a.shape.begin(), a.shape.begin() + axes, b.shape.begin());
}

bool same_shape(const Array &a, const Array &b) {
    return a.rank == b.rank && same_leading(a, b, a.rank);
}

int64_t Axes::size() const {
    int64_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        n *= shape[d];
    return n;
}

// Whether axis d continues the last axis of joint in every array.
static bool joins(const Axes &joint, std::initializer_list<const Array *> arrays, uint32_t d, int64_t length) {
    uint32_t k = 0;
    for (const Array *x : arrays) {
        if (joint.strides[k++][joint.rank - 1] != x->strides[d] * length)
            return false;
    }
    return true;
}

Axes collapse(std::initializer_list<const Array *> arrays, int axes) {
    Axes joint;
    const Array &first = **arrays.begin();
    uint32_t k = 0;
    for (const Array *x : arrays)
        joint.offset[k++] = x->offset;
    uint32_t n = axes < 0 ? first.rank : uint32_t(axes);
    for (uint32_t d = 0; d < n; d++) {
        int64_t length = first.shape[d];
        if (length == 1)
            continue;
        if (joint.rank > 0 && joins(joint, arrays, d, length))
            joint.shape[joint.rank - 1] *= length;
        else
            joint.shape[joint.rank++] = length;
        k = 0;
        for (const Array *x : arrays)
            joint.strides[k++][joint.rank - 1] = x->strides[d];
    }
    return joint;
}

// Whether groups of four neighbours along the last axis of array k are aligned.
static bool quads_along_last(const Axes &axes, uint32_t k) {
    const uint32_t last = axes.rank - 1;
    return axes.strides[k][last] == 1 && aligned(axes.offset[k], axes.shape.data(), axes.strides[k].data(), last, 4);
}

uint32_t make_quads(Axes &axes, uint32_t arrays) {
    constexpr int64_t least = 1024; // for fewer, a separate kernel does not pay
    if (axes.rank == 0 || axes.size() < least || axes.shape[axes.rank - 1] % 4 != 0)
        return 0;
    const uint32_t last = axes.rank - 1;
    uint32_t quads = QUADS_ON;
    for (uint32_t k = 0; k < arrays; k++) {
        if (k + 1 < arrays && axes.strides[k][last] == 0)
            quads |= QUADS_SINGLE_A << k;
        else if (!quads_along_last(axes, k))
            return 0;
    }
    axes.shape[last] /= 4;
    for (uint32_t k = 0; k < arrays; k++) {
        if (axes.strides[k][last] == 0)
            continue;
        axes.offset[k] /= 4;
        for (uint32_t d = 0; d < last; d++)
            axes.strides[k][d] /= 4;
    }
    return quads;
}

void fill(uint32_t *to, uint32_t capacity, const std::array<int64_t, KPX_MAX_RANK> &from, uint32_t rank, uint32_t pad) {
    for (uint32_t d = 0; d < capacity; d++)
        to[d] = d < rank ? uint32_t(from[d]) : pad;
}

void fill_back(uint32_t *to, uint32_t capacity, const std::array<int64_t, KPX_MAX_RANK> &from, uint32_t rank,
               uint32_t pad) {
    uint32_t front = capacity - rank;
    for (uint32_t d = 0; d < capacity; d++)
        to[d] = d < front ? pad : uint32_t(from[d - front]);
}

Walk2::Walk2(const Axes &axes) : rank(std::max(axes.rank, 1u)) {
    params.n = uint32_t(axes.size());
    fill(params.shape, MAX_RANK, axes.shape, axes.rank, 1);
    fill(params.in_strides, MAX_RANK, axes.strides[0], axes.rank, 0);
    fill(params.out_strides, MAX_RANK, axes.strides[1], axes.rank, 0);
    params.in_offset = uint32_t(axes.offset[0]);
    params.out_offset = uint32_t(axes.offset[1]);
}

Walk3::Walk3(Lowering &lowering, const Array &a_, const Array &b_, const Array &out_, bool quads_)
    : a(a_), b(b_), out(out_) {
    Axes axes = collapse({&a, &b, &out});
    if (axes.rank > MAX_DIMS) {
        a = contiguous(lowering, a_);
        b = contiguous(lowering, b_);
        out = dense_output(lowering, out_);
        axes = collapse({&a, &b, &out});
    }
    if (quads_)
        quads = make_quads(axes, 3);
    rank = std::max(axes.rank, 1u);
    params.n = uint32_t(axes.size());
    fill(params.shape, MAX_DIMS, axes.shape, axes.rank, 1);
    fill(params.a_strides, MAX_DIMS, axes.strides[0], axes.rank, 0);
    fill(params.b_strides, MAX_DIMS, axes.strides[1], axes.rank, 0);
    fill(params.out_strides, MAX_DIMS, axes.strides[2], axes.rank, 0);
    params.a_offset = uint32_t(axes.offset[0]);
    params.b_offset = uint32_t(axes.offset[1]);
    params.out_offset = uint32_t(axes.offset[2]);
}

RowParams rows_of(Lowering &lowering, Array &x) {
    int lead = x.rank > 0 ? int(x.rank) - 1 : 0;
    Axes axes = collapse({&x}, lead);
    if (axes.rank > 3) {
        x = contiguous(lowering, x);
        axes = collapse({&x}, lead);
    }
    RowParams rows{};
    rows.rows = uint32_t(axes.size());
    rows.cols = x.rank > 0 ? uint32_t(x.dim(-1)) : 1;
    fill_back(rows.shape, 3, axes.shape, axes.rank, 1);
    fill_back(rows.strides, 3, axes.strides[0], axes.rank, 0);
    rows.col_stride = x.rank > 0 ? uint32_t(x.stride(-1)) : 1;
    rows.offset = uint32_t(x.offset);
    return rows;
}

// Columns of a row that one thread may have. It goes through them up to three times, in blocks of four or more, whose
// loops drivers unroll, and takes part in a few reductions, all of which is well below kMostRounds of rounds.hpp.
constexpr int64_t MOST_COLUMNS = 30000;

uint32_t row_threads(const DeviceTraits &device, int64_t cols, uint32_t most) {
    // A CPU runs the threads of a workgroup one after another, so few suffice.
    // Long rows need more: otherwise their sums lose precision, and their loops
    // become long.
    int64_t wanted = device.is_cpu ? std::min<int64_t>(most, cols / 1024) : most;
    wanted = std::max(std::min(wanted, cols), cols / MOST_COLUMNS);
    uint32_t threads = 32;
    while (threads < wanted && threads < 1024 && threads * 2 <= device.max_workgroup_invocations)
        threads *= 2;
    return threads;
}

RowShape row_shape(const DeviceTraits &device, int64_t cols) {
    // What matters is the number of loads in flight, not of threads, and fewer threads wait less for each other. On
    // a CPU this would only make compilation longer.
    const uint32_t items = cols <= 1024 ? 4 : cols <= 2048 || device.is_cpu ? 8 : 16;
    return {row_threads(device, (cols + items - 1) / items, 1024), items};
}

bool quads_in_rows(const Array &x) {
    return x.stride(-1) == 1 && x.dim(-1) % 4 == 0 &&
           aligned(x.offset, x.shape.data(), x.strides.data(), x.rank - 1, 4);
}

bool quads_in_rows(const RowParams &x) {
    return x.col_stride == 1 && aligned(x.offset, x.shape, x.strides, 3, 4);
}

uint32_t row_quads(const DeviceTraits &device, const RowParams &rows, std::initializer_list<const Array *> others) {
    if (device.is_cpu && int64_t(rows.rows) * rows.cols < 1 << 16)
        return 0;
    bool quads = rows.cols % 4 == 0 && quads_in_rows(rows);
    for (const Array *x : others)
        quads = quads && (!*x || (x->stride(-1) == 1 && x->offset % 4 == 0));
    return quads;
}

void check_row_length(int64_t cols, uint32_t threads) {
    if (cols / threads > MOST_COLUMNS)
        unsupported("a row of {} elements is too long", cols);
}

Array scratch_like(Lowering &lowering, const Array &x, uint32_t dtype) {
    Array out = lowering.scratch(dtype, {x.size()});
    out.rank = x.rank;
    out.shape = x.shape;
    out.pack();
    return out;
}

Array copy_of(Lowering &lowering, const Array &x) {
    const Array copy = scratch_like(lowering, x, x.dtype);
    copy_array(lowering, x, copy);
    return copy;
}

Array contiguous(Lowering &lowering, const Array &x) {
    if (x.contiguous())
        return x;
    Array dense = scratch_like(lowering, x, x.dtype);
    copy_array(lowering, x, dense);
    return dense;
}

Array dense_output(Lowering &lowering, const Array &out) {
    return out.contiguous() ? out : scratch_like(lowering, out, out.dtype);
}

void store_output(Lowering &lowering, const Array &dense, const Array &out) {
    if (dense.buffer != out.buffer)
        copy_array(lowering, dense, out);
}

Grid grid_1d(const DeviceTraits &device, int64_t groups) {
    int64_t most = device.max_workgroup_count[0];
    int64_t y = std::max<int64_t>(1, (groups + most - 1) / most);
    return {uint32_t((groups + y - 1) / y), uint32_t(y), 1};
}

uint32_t batch_of(const DeviceTraits &device, int64_t n) {
    // Work that fits on a GPU all at once needs no batches. On a CPU they gain nothing, and would mean more
    // pipelines to compile.
    const int64_t least = device.is_cpu ? 1 << 16 : 1 << 19;
    return n >= least ? 4 : 1;
}

Grid grid_elements(const DeviceTraits &device, int64_t n, uint32_t batch) {
    // Enough workgroups to fill any device several times; more only cost launches.
    int64_t most = std::min<int64_t>(device.max_workgroup_count[0], batch > 1 ? 65535 : 8192);
    const int64_t group = int64_t(element_threads(device)) * batch; // of elements
    const int64_t groups = (n + group - 1) / group;
    return {uint32_t(std::max<int64_t>(1, std::min(groups, most))), 1, 1};
}

} // namespace kpx
