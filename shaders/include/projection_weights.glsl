// For projection.comp: its matrices, of which a lane has two steps in flight.
// Buffers 0 and 1 of `words` and `affine` are always indexed by literals, so
// that they stay in registers.
#ifndef PROJECTION_WEIGHTS_GLSL
#define PROJECTION_WEIGHTS_GLSL

// Whether the pair's matrices are one in memory: the second has as many rows as the first, and they follow those.
const bool ONE_PAIR = PAIR && ONE_MATRIX != 0;

// In each buffer: BITS words of the unit of each stream, then the words that contain the scale and bias
// (without biases: both scales) of the streams whose sums the lane completes (kept_stream); for a pair without
// ONE_PAIR, those of both matrices. These are kept as loaded: any operation on them here would have to wait for the
// load, and so would everything after it.
const uint KEPT = STREAMS > SPAN ? STREAMS / SPAN : 1;
uint words[2 * STREAMS * BITS];
uvec2 affine[2 * KEPT], second_affine[2 * KEPT];

// Lanes with the units of a span exchange their sums: each completes those of some streams, or with few streams, one
// that others complete as well.
uint kept_stream(uint i) { return i * SPAN + lane() % min(SPAN, STREAMS); }

const uint SHARED = HALVES == 1 ? 2 : 1; // scales in a loaded word
const uint SCALES = HALVES == 2 ? 2 : 1; // units that share one
const uint RUN = BITS % 4 == 0 ? 4 : BITS % 2 == 0 ? 2 : 1; // words of one load

// The buffers of matrix i: words, scales, biases, out. fetch##i starts the loads of the units of a slice of ROWS rows of
// matrix `set`: i, or with ONE_MATRIX any of them; with ONE_PAIR the first one, whose offsets then serve for both and
// take fewer registers. weight##i is an element. Loads are volatile, since drivers would otherwise move them to where
// their values are needed, after the barrier that ends the preparation of x.
#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) volatile readonly buffer w##i##_Block1 { uint data[]; } w##i##_1; \
    layout(set = 0, binding = slot) volatile readonly buffer w##i##_Block2 { uvec2 data[]; } w##i##_2; \
    layout(set = 0, binding = slot) volatile readonly buffer w##i##_Block4 { uvec4 data[]; } w##i##_4; \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    const uint y##i##_DT = y_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, volatile readonly) \
    TENSOR_BITS(scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, volatile readonly) \
    TENSOR_BITS(biases##i) \
    TENSOR_BLOCKS(slot + 3, y##i, ) \
    TENSOR_STORES(y##i) \
    float weight##i(uint row, uint unit, uint code) { \
        uint at = p.sets[i].w_offset + row * p.sets[i].w_stride + unit * BITS; \
        uint group = unit >> GROUP_SHIFT; \
        uint scale_at = p.sets[i].s_offset + row * p.sets[i].s_stride + group * SCALES + (SCALES == 2 ? code / 16 : 0); \
        uint bias = SMALL_FLOATS ? 0u : biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + group); \
        return code_weight(CODE_AT(w##i, at, code * BITS), scales##i##_bits(scale_at), bias); \
    } \
    uvec2 fetch_affine##i(uint scale_at, uint bias_at) { \
        if (HALVES == 1) { \
            return uvec2(scales##i##_32.data[scale_at], biases##i##_32.data[bias_at]); \
        } \
        if (SMALL_FLOATS) { \
            return uvec2(scales##i##_bits(scale_at), HALVES == 2 ? scales##i##_bits(scale_at + 1) : 0u); \
        } \
        return uvec2(scales##i##_bits(scale_at), biases##i##_bits(bias_at)); \
    } \
    void fetch_unit##i(uint at, uint to) { \
        [[unroll]] for (uint k = 0; k < BITS / RUN; k++) { \
            if (RUN == 4) { \
                uvec4 v = w##i##_4.data[at + k]; \
                words[to * BITS + 4 * k] = v.x; \
                words[to * BITS + 4 * k + 1] = v.y; \
                words[to * BITS + 4 * k + 2] = v.z; \
                words[to * BITS + 4 * k + 3] = v.w; \
            } else if (RUN == 2) { \
                uvec2 v = w##i##_2.data[at + k]; \
                words[to * BITS + 2 * k] = v.x; \
                words[to * BITS + 2 * k + 1] = v.y; \
            } else { \
                words[to * BITS + k] = w##i##_1.data[at + k]; \
            } \
        } \
    } \
    void fetch##i(uint set, uint first, uint unit, uint to, uint second) { \
        uint from = p.sets[set].w_offset / RUN + unit * (BITS / RUN); \
        uint scale_from = (p.sets[set].s_offset + (unit >> GROUP_SHIFT) * SCALES) / SHARED; \
        uint bias_from = (p.sets[set].b_offset + (unit >> GROUP_SHIFT)) / SHARED; \
        uint rows = p.sets[PAIR ? 0 : set].n; \
        [[unroll]] for (uint r = 0; r < ROWS; r++) { \
            uint row = (ONE_PAIR ? second * rows : 0) + min(first + r, rows - 1); \
            fetch_unit##i(from + row * (p.sets[set].w_stride / RUN), to * STREAMS + second * ROWS + r); \
        } \
        [[unroll]] for (uint k = 0; k < KEPT; k++) { \
            if (ONE_PAIR ? second != 0 : PAIR && STREAMS > SPAN && k * SPAN / ROWS != second) { \
                continue; \
            } \
            uint stream = kept_stream(k); \
            uint row = (ONE_PAIR ? stream / ROWS * rows : 0) + min(first + stream % ROWS, rows - 1); \
            uvec2 of_row = fetch_affine##i(scale_from + row * (p.sets[set].s_stride / SHARED), \
                                           bias_from + row * (p.sets[set].b_stride / SHARED)); \
            if (second == 0) { \
                affine[to * KEPT + k] = of_row; \
            } else { \
                second_affine[to * KEPT + k] = of_row; \
            } \
        } \
    }

MATRIX(0, 3)
MATRIX(1, 7)
MATRIX(2, 11)

uint matrix;    // the matrix of this workgroup
uint group;     // the workgroup's number among those of the matrix
uint first_row; // of the workgroup

void locate() {
    group = workgroup_index();
    matrix = 0;
    if (!PAIR) {
        matrix = uint(SETS > 1 && group >= p.starts[0]) + uint(SETS > 2 && group >= p.starts[1]);
        group -= matrix == 0 ? 0 : p.starts[matrix - 1];
    }
    first_row = group * GROUP_ROWS;
}

// The index of the first row of a team's turn among those of the workgroup.
uint turn_row(uint turn) { return (turn * SLOTS + slot()) * ROWS; }

// The same slice of all rows of a team uses the same half of the loaded words.
float affine_float(uint word, uint slice, uint dtype) {
    if (HALVES == 0) {
        return bits_to_float(word, dtype);
    }
    bool second = (((slice * LANES + lane()) >> GROUP_SHIFT) & 1) != 0;
    if (dtype == DT_BFLOAT16) {
        return uintBitsToFloat((word << (second ? 0 : 16)) & 0xffff0000u);
    }
    return bits_to_float((word >> (second ? 16 : 0)) & 0xffffu, dtype);
}

// Starts the loads of a turn into a buffer.
void fetch(uint held, uint slice, uint turn) {
    uint row = first_row + turn_row(turn);
    uint unit = slice * LANES + lane();
    if (!EVEN) {
        unit = min(unit, UNITS - 1);
    }
    if (PAIR) {
        fetch0(0, row, unit, held, 0);
        if (ONE_PAIR) {
            fetch0(0, row, unit, held, 1);
        } else {
            fetch1(1, row, unit, held, 1);
        }
    } else if (SETS == 1 || ONE_MATRIX != 0 || matrix == 0) {
        fetch0(ONE_MATRIX != 0 ? matrix : 0, row, unit, held, 0);
    } else if (SETS == 2 || matrix == 1) {
        fetch1(1, row, unit, held, 0);
    } else {
        fetch2(2, row, unit, held, 0);
    }
}

#endif
