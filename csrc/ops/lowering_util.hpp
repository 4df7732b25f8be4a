// What the lowerings share: checks of operands, joint layouts, grids, and
// copies to contiguous scratch for kernels that want dense operands.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "gen_kernels.hpp"
#include "ops/gen_ops.hpp"
#include "ops/op.hpp"

namespace kpx {

constexpr uint32_t divide_up(int64_t a, int64_t b) {
    return uint32_t((a + b - 1) / b);
}

// ---- Checks. Each throws what is wrong (invalid) or beyond this device (unsupported). ----

const char *dtype_name(uint32_t dtype);
inline bool is_float(uint32_t dtype) {
    return dtype >= DT_FLOAT32 && dtype <= DT_BFLOAT16;
}
inline bool is_index_dtype(uint32_t dtype) {
    return dtype == DT_INT32 || dtype == DT_UINT32;
}

// Every present operand has a dtype that this device can store, fewer than
// 2^31 elements, and element offsets that fit 32 bits. Absent ones are skipped.
void check_operands(std::initializer_list<const Array *> arrays);

// Whether both have the same rank and dimensions.
bool same_shape(const Array &a, const Array &b);
// Whether both have the same first `axes` dimensions.
bool same_leading(const Array &a, const Array &b, uint32_t axes);

// Whether to use the kernels made for CPU drivers (projection_lanes.comp explains how they differ). False for a
// device that is to act as a GPU.
bool prefers_lanes(const Lowering &lowering, const char *kernel);
constexpr uint32_t LANES = 8; // of such a kernel: one subgroup

// How many rows each lane of such a kernel takes: several, so that they share common work, as long as there are
// enough workgroups for the CPU's cores.
uint32_t rows_of_lane(int64_t rows, uint32_t most);

// Rounds of the loops of such a product of rows of cols elements in groups (rounds.hpp), with so many results of a lane
// for which not_finite.glsl may go through their rows again.
int64_t lane_rounds(int64_t cols, int64_t group, int64_t results);

// ---- Joint layouts ----

constexpr uint32_t MAX_OPERANDS = 4;

// Several arrays of one shape with as few common axes as possible: axes of
// length 1 are gone, neighbours that follow one another in every array are one.
// The order of elements is kept. Axis 0 is the outermost; rank 0 is one element.
struct Axes {
    uint32_t rank = 0;
    std::array<int64_t, KPX_MAX_RANK> shape{};
    std::array<std::array<int64_t, KPX_MAX_RANK>, MAX_OPERANDS> strides{}; // [array][axis]
    std::array<int64_t, MAX_OPERANDS> offset{};

    int64_t size() const;
};

// All arrays have the shape of the first one; `axes` leading axes are taken
// (-1: all of them). At most MAX_OPERANDS arrays.
Axes collapse(std::initializer_list<const Array *> arrays, int axes = -1);

// Calls body(inner) for every index of the outer axes beyond the `keep`
// innermost; inner has the rest, and the offsets of that index.
template <typename F> void for_each_outer(const Axes &axes, uint32_t keep, F body) {
    if (axes.rank <= keep) {
        body(axes);
        return;
    }
    Axes inner = axes;
    inner.rank = axes.rank - 1;
    for (uint32_t d = 0; d < inner.rank; d++) {
        inner.shape[d] = axes.shape[d + 1];
        for (uint32_t k = 0; k < MAX_OPERANDS; k++)
            inner.strides[k][d] = axes.strides[k][d + 1];
    }
    for (int64_t i = 0; i < axes.shape[0]; i++) {
        for (uint32_t k = 0; k < MAX_OPERANDS; k++)
            inner.offset[k] = axes.offset[k] + i * axes.strides[k][0];
        for_each_outer(inner, keep, body);
    }
}

// Whether the offset and the strides of these axes are multiples of `unit` elements. To read `unit` neighbours
// along an axis with stride 1, this must hold for all other axes.
template <typename T> bool aligned(int64_t offset, const T *shape, const T *strides, uint32_t axes, int64_t unit) {
    bool is = offset % unit == 0;
    for (uint32_t d = 0; d < axes; d++) {
        is = is && (shape[d] == 1 || int64_t(strides[d]) % unit == 0);
    }
    return is;
}

// If four neighbours can be processed at once in all of `arrays` arrays, of
// which the last is written, makes the axes count quads and returns QUADS_*;
// otherwise returns 0. Inputs that repeat along the last axis still count
// elements.
uint32_t make_quads(Axes &axes, uint32_t arrays);

// Fills 32-bit kernel parameters with the first rank values, and the rest of
// the capacity with pad: after them (fill), or before them (fill_back).
void fill(uint32_t *to, uint32_t capacity, const std::array<int64_t, KPX_MAX_RANK> &from, uint32_t rank, uint32_t pad);
void fill_back(uint32_t *to, uint32_t capacity, const std::array<int64_t, KPX_MAX_RANK> &from, uint32_t rank,
               uint32_t pad);

// The joint layout of an input and an output, in the form that walk.glsl reads.
// rank is the kernel's RANK, at least 1.
struct Walk2 {
    Walk2Params params{};
    uint32_t rank;

    explicit Walk2(const Axes &axes);
    Walk2(const Array &in, const Array &out) : Walk2(collapse({&in, &out})) {}
};

// The same for two inputs and an output. Where they have more joint axes than
// the kernel walks, a, b and out are contiguous stand-ins: store_output(out, …)
// must follow the dispatch.
struct Walk3 {
    Walk3Params params{};
    uint32_t rank;
    uint32_t quads = 0; // QUADS_*, if asked for
    Array a, b, out;

    Walk3(Lowering &lowering, const Array &a, const Array &b, const Array &out, bool quads = false);
};

// ---- Rows: kernels that work along the last axis ----

// x as rows along its last axis, with at most three leading axes. If x has
// more, it is replaced by a contiguous copy. x passed check_operands.
RowParams rows_of(Lowering &lowering, Array &x);

// Workgroup size for a row of cols elements: a power of two, 32 to `most`, as
// far as the device allows.
uint32_t row_threads(const DeviceTraits &device, int64_t cols, uint32_t most = 256);

// How one workgroup processes a row: in blocks of items columns per thread (rows.glsl).
struct RowShape {
    uint32_t threads, items;
};
RowShape row_shape(const DeviceTraits &device, int64_t cols);

// Whether four neighbours of a row, starting at a multiple of 4, can be one load. For an array, the rows run along
// its last axis, and their length must be a multiple of 4 as well.
bool quads_in_rows(const Array &x);
bool quads_in_rows(const RowParams &x);

// Whether rows, and arrays of one row each (which may be absent), consist of whole
// quads that are one load or store each (QUADS in rows.glsl). On a CPU, a few of
// them are not worth a pipeline of their own.
uint32_t row_quads(const DeviceTraits &device, const RowParams &rows, std::initializer_list<const Array *> others);

// Whether one workgroup with that many threads may loop over a row a few times, in blocks of several columns for each
// thread (rounds.hpp).
void check_row_length(int64_t cols, uint32_t threads);

// ---- Copies ----

// In which units a kernel that only moves bits handles the first two arrays:
// elements of that dtype, of at most a word, or with quads four words.
struct Units {
    uint32_t dtype;
    uint32_t quads;
};

// Joins two neighbours of that many bytes in one unit, as often as the layouts
// allow (copy.cpp).
Units join_elements(Axes &axes, uint32_t bytes);

// Copies elements between arrays of one shape and dtype, any layouts (copy.cpp). Both
// passed check_operands. Source and destination elements must not overlap.
void copy_array(Lowering &lowering, const Array &from, const Array &to);

// Writes an element with these bits everywhere (fill.cpp). out passed check_operands.
void fill_array(Lowering &lowering, const Array &out, uint32_t bits);

// x itself if it is contiguous, else a contiguous copy in scratch memory.
Array contiguous(Lowering &lowering, const Array &x);

// Uninitialised contiguous scratch memory with x's shape.
Array scratch_like(Lowering &lowering, const Array &x, uint32_t dtype);
// A contiguous copy that starts where a binding can.
Array copy_of(Lowering &lowering, const Array &x);

// A contiguous array for a kernel to write: out itself, or scratch memory that
// store_output copies to out afterwards.
Array dense_output(Lowering &lowering, const Array &out);
void store_output(Lowering &lowering, const Array &dense, const Array &out);

// ---- Parts of an array (slice.cpp) ----

// Whether part has x's rank and dtype and is not longer than x along any axis.
bool part_fits(const Array &x, const Array &part);

// start is absent, or int32 with one element per axis of x.
void check_start(const Array &start, const Array &x);

// The part of x of that shape which begins at start, clamped so that it fits; without a start, at x's first element.
// It fits in x.
Array part_of(const Array &x, const Array &shape, const int32_t *start);

// Copies the part of from (of_from) that has to's shape, or else copies from to the part of `to` that has from's. The
// part begins where start (int32 [rank], read on the device, clamped so that the part fits) says.
void copy_part(Lowering &lowering, const Array &from, const Array &to, const Array &start, bool of_from);

// ---- Grids ----

// Threads of an elementwise workgroup: a power of two.
inline uint32_t element_threads(const DeviceTraits &device) {
    return device.max_workgroup_invocations >= 256 ? 256 : 128;
}

// A grid of groups workgroups, folded into x and y; a kernel gets its number
// from workgroup_index() and returns at once if that is not below groups.
Grid grid_1d(const DeviceTraits &device, int64_t groups);

// How many elements, or quads, a thread processes at a time (BATCHES in walk.glsl).
uint32_t batch_of(const DeviceTraits &device, int64_t n);

// Grid of a kernel whose threads stride over n elements, or quads, in batches (walk.glsl).
Grid grid_elements(const DeviceTraits &device, int64_t n, uint32_t batch = 1);

} // namespace kpx
