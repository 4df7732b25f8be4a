// One row of x times the rows of up to three quantized matrices, in one
// dispatch; with NORM, x is normalised before: RMSNorm(x) * gain. What becomes of
// the products is EPILOGUE: they are stored, the residual is added to the first,
// SiLU(first) * second is stored, or only where the largest is. With SPLITS beyond 1, x is
// what so many splits of attention gave, still in parts.
//
// A workgroup keeps x * gain in shared memory. 1/rms is a factor of every result,
// so it is applied at the end, and the squares are summed while x comes in. A
// slot of lanes takes ROWS rows of a matrix at a time. It goes in steps: a turn is
// ROWS rows per slot, a pass is BATCH units of 32 codes per lane and row. The
// weights of a step are under way while the one before is computed, those of the
// first while x comes in.
//
// With INTEGERS, codes of 4 bits are multiplied as bytes, and x is kept as
// integers: byte_limbs.glsl. That is half the instructions of the same in floats.
//
// variants: narrow_subgroup_dot8 narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "quads.glsl"
#include "math.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(1, gain, 2)
QUADS_IN(1, gain)
layout(constant_id = 3) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 4) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 5) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 6) const uint BITS = 4;
layout(constant_id = 7) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 8) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 9) const uint SETS = 1;        // matrices
layout(constant_id = 10) const uint NORM = 0;       // 1: without gain, 2: with
layout(constant_id = 11) const uint EPILOGUE = 0;   // PROJECTION_*
layout(constant_id = 12) const uint ROWS = 1;
layout(constant_id = 13) const uint BATCH = 1;
#define SLOT_SPEC 14
#include "slots.glsl"
layout(constant_id = 15) const uint SPLITS = 1; // 1: x is a row
layout(constant_id = 16) const uint HEAD = 4;   // elements of a head, with SPLITS
layout(constant_id = 17) const uint INTEGERS = 0;

#define residual_DT y_DT
TENSOR_BLOCKS(2, residual, readonly)
TENSOR_LOADS(residual)

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint STREAMS = PAIR ? 2 * ROWS : ROWS; // rows of matrices in flight
const uint UNITS = COLS / 32;
const uint PASSES = (UNITS + LANES * BATCH - 1) / (LANES * BATCH);

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#ifdef DOT8
const bool LIMBS = BITS == 4 && INTEGERS == 1;
#else
const bool LIMBS = false;
#endif

shared uvec4 staged[COLS / 4];
shared vec2 unit_stats[UNITS]; // sum, and with LIMBS what the integers are multiples of
shared float squares[256];     // of a slot, or of a thread
shared uvec2 winners[256];     // key and row of each slot's largest results

#ifdef DOT8
#include "byte_limbs.glsl"
#endif

// Lanes read quads 8 apart: the swizzle keeps them off each other's banks.
uint swizzle(uint quad) { return quad ^ ((quad >> 3) & 7u); }

// What is under way, and what is computed on: BITS words for each of BATCH units
// of each stream, then scale and bias of each.
uint next_words[STREAMS * BATCH * BITS];
vec2 next_affine[STREAMS * BATCH];
float next_residual;
uint words[STREAMS * BATCH * BITS];
vec2 affine[STREAMS * BATCH];

// The buffers of matrix i: words, scales, biases, out. fetch##i starts the loads of
// one unit into place `to`; store##i writes a result.
#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block1 { uint data[]; } w##i##_1; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block2 { uvec2 data[]; } w##i##_2; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block4 { uvec4 data[]; } w##i##_4; \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    const uint y##i##_DT = y_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, readonly) \
    TENSOR_LOADS(scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, readonly) \
    TENSOR_LOADS(biases##i) \
    TENSOR_BLOCKS(slot + 3, y##i, ) \
    TENSOR_STORES(y##i) \
    void fetch##i(uint row, uint unit, uint to) { \
        uint at = p.sets[i].w_offset + row * p.sets[i].w_stride + unit * BITS; \
        [[unroll]] for (uint k = 0; k < BITS; k += 4) { \
            if (BITS % 4 == 0) { \
                uvec4 v = w##i##_4.data[(at + k) >> 2]; \
                next_words[to * BITS + k] = v.x; \
                next_words[to * BITS + k + 1] = v.y; \
                next_words[to * BITS + k + 2] = v.z; \
                next_words[to * BITS + k + 3] = v.w; \
            } \
        } \
        [[unroll]] for (uint k = 0; k < BITS; k += 2) { \
            if (BITS % 4 == 2) { \
                uvec2 v = w##i##_2.data[(at + k) >> 1]; \
                next_words[to * BITS + k] = v.x; \
                next_words[to * BITS + k + 1] = v.y; \
            } \
        } \
        [[unroll]] for (uint k = 0; k < BITS; k++) { \
            if (BITS % 2 == 1) { \
                next_words[to * BITS + k] = w##i##_1.data[at + k]; \
            } \
        } \
        uint group = unit >> GROUP_SHIFT; \
        next_affine[to] = vec2(scales##i##_load(p.sets[i].s_offset + row * p.sets[i].s_stride + group), \
                               biases##i##_load(p.sets[i].b_offset + row * p.sets[i].b_stride + group)); \
    } \
    void fetch_rows##i(uint row, uint first_unit, uint first_stream) { \
        [[unroll]] for (uint r = 0; r < ROWS; r++) { \
            [[unroll]] for (uint b = 0; b < BATCH; b++) { \
                uint unit = first_unit + b * slot_lanes(); \
                fetch##i(min(row + r, p.sets[i].n - 1), min(unit, UNITS - 1), (first_stream + r) * BATCH + b); \
            } \
        } \
    }

MATRIX(0, 3)
MATRIX(1, 7)
MATRIX(2, 11)

// The matrix that this workgroup works on, and the first of its rows.
uint matrix;
uint first_row;

uint row_of(uint turn) { return first_row + (turn * slot_count() + slot_index()) * ROWS; }

// Starts the loads of a step.
void fetch(uint step) {
    uint row = row_of(step / PASSES);
    uint unit = slot_lane() + step % PASSES * BATCH * slot_lanes();
    if (PAIR) {
        fetch_rows0(row, unit, 0);
        fetch_rows1(row, unit, ROWS);
    } else if (SETS == 1 || matrix == 0) {
        fetch_rows0(row, unit, 0);
    } else if (SETS == 2 || matrix == 1) {
        fetch_rows1(row, unit, 0);
    } else {
        fetch_rows2(row, unit, 0);
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) { // lane r takes that of row r
        next_residual = residual_load(p.residual_offset + min(row + min(slot_lane(), ROWS - 1), p.sets[0].n - 1));
    }
}

#include "attention_parts.glsl"

vec4 x_in(uint quad) { return SPLITS != 1 ? combined_quad(p.x_offset, quad) : x_quad(p.x_offset + 4 * quad); }

vec4 with_gain(vec4 v, uint quad) { return NORM == 2 ? v * gain_quad(p.gain_offset + 4 * quad) : v; }

#ifdef SUBGROUP
uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }
#else
uint thread_index() { return gl_LocalInvocationIndex; }
#endif

// Brings x into shared memory as floats; gives the thread's share of the squares.
float stage_floats() {
    float square = 0.0;
    [[unroll]] for (uint first = 0; first < COLS / 4; first += gl_WorkGroupSize.x) {
        uint quad = first + thread_index();
        if (quad < COLS / 4) {
            vec4 v = x_in(quad);
            square += dot(v, v);
            v = with_gain(v, quad);
            staged[swizzle(quad)] = floatBitsToUint(v);
#ifdef SUBGROUP
            float sum = (v.x + v.y) + (v.z + v.w); // eight lanes hold a unit
            sum += subgroupShuffleXor(sum, 1);
            sum += subgroupShuffleXor(sum, 2);
            sum += subgroupShuffleXor(sum, 4);
            if ((quad & 7) == 0) {
                unit_stats[quad >> 3] = vec2(sum, 1.0);
            }
#endif
        }
    }
    return square;
}

#ifdef DOT8
// The same as integers.
float stage_integers() {
    float square = 0.0;
    [[unroll]] for (uint first = 0; first < COLS / 8; first += gl_WorkGroupSize.x) {
        uint i = first + thread_index();
        if (i < COLS / 8) {
            vec4 a = x_in(2 * i), b = x_in(2 * i + 1);
            square += dot(a, a) + dot(b, b);
            vec2 stats = stage_limbs(i, with_gain(a, 2 * i), with_gain(b, 2 * i + 1));
            if ((i & 3) == 0) {
                unit_stats[i >> 2] = stats;
            }
        }
    }
    return square;
}
#endif

void stage() {
#ifdef DOT8
    float square = LIMBS ? stage_integers() : stage_floats();
#else
    float square = stage_floats();
#endif
    if (NORM != 0) {
        squares[slot_index()] = slot_sum(square);
    }
    barrier();
#ifndef SUBGROUP
    for (uint unit = thread_index(); unit < UNITS; unit += gl_WorkGroupSize.x) {
        vec4 sum = vec4(0.0);
        for (uint j = 0; j < 8; j++) {
            sum += uintBitsToFloat(staged[swizzle(unit * 8 + j)]);
        }
        unit_stats[unit] = vec2((sum.x + sum.y) + (sum.z + sum.w), 1.0);
    }
    barrier();
#endif
}

// 1/rms of x.
float norm_factor() {
    if (NORM == 0) {
        return 1.0;
    }
    float sum = 0.0;
    for (uint i = 0; i < slot_count(); i++) {
        sum += squares[i];
    }
    return inversesqrt(sum / float(COLS) + p.eps);
}

// A code that stands at bit `at` of v, as a float and without a conversion: put
// into the mantissa of the power of two whose last places it has there.
float code(uint v, uint at) {
    uint base = (150u - at) << 23; // 2^(23 - at)
    return uintBitsToFloat((v & (((1u << BITS) - 1u) << at)) | base) - uintBitsToFloat(base);
}

// Codes 4j to 4j + 3 of the unit whose words start at `from`.
vec4 codes(uint from, uint j) {
    if (BITS == 4) {
        uint v = words[from + (j >> 1)] >> (16u * (j & 1u));
        return vec4(code(v, 0), code(v, 4), code(v, 8), code(v, 12));
    }
    vec4 c;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint bit = (4 * j + i) * BITS;
        uint v = words[from + (bit >> 5)] >> (bit & 31u);
        if ((bit & 31u) + BITS > 32u) {
            v |= words[from + min((bit >> 5) + 1, BITS - 1)] << (32u - (bit & 31u));
        }
        c[i] = code(v, 0);
    }
    return c;
}

float acc[STREAMS];

float dots[STREAMS]; // of a unit

void dot_floats(uint unit, uint b) {
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        dots[s] = 0.0;
    }
    [[unroll]] for (uint j = 0; j < 8; j++) {
        vec4 v = uintBitsToFloat(staged[swizzle(unit * 8 + j)]);
        [[unroll]] for (uint s = 0; s < STREAMS; s++) {
            vec4 c = codes((s * BATCH + b) * BITS, j);
            dots[s] = fma(c.w, v.w, fma(c.z, v.z, fma(c.y, v.y, fma(c.x, v.x, dots[s]))));
        }
    }
}

#ifdef DOT8
void dot_integers(uint unit, uint b) {
    uvec4 limbs[6];
    [[unroll]] for (uint i = 0; i < 6; i++) {
        limbs[i] = staged[i * UNITS + unit];
    }
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        uint low = 0, middle = 0;
        int high = 0;
        [[unroll]] for (uint half_unit = 0; half_unit < 2; half_unit++) {
            uint from = (s * BATCH + b) * BITS + 2 * half_unit;
            uvec4 c = uvec4(words[from], words[from] >> 4, words[from + 1], words[from + 1] >> 4) & 0x0f0f0f0fu;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                low += dot_unsigned(c[i], limbs[half_unit][i], 0);
                middle += dot_unsigned(c[i], limbs[2 + half_unit][i], 0);
                high += dot_signed(c[i], limbs[4 + half_unit][i], 0);
            }
        }
        dots[s] = float(int(low) + (int(middle) << 8) + (high << 16));
    }
}
#endif

// Adds the products of the unit that is number b of the lane's batch.
void add_unit(uint unit, uint b) {
#ifdef DOT8
    if (LIMBS) {
        dot_integers(unit, b);
    } else {
        dot_floats(unit, b);
    }
#else
    dot_floats(unit, b);
#endif
    vec2 stats = unit_stats[unit];
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        vec2 a = affine[s * BATCH + b];
        acc[s] += LIMBS ? a.x * stats.y * dots[s] + a.y * stats.x : a.x * dots[s] + a.y * stats.x;
    }
}

void store(uint row, float v) {
    if (PAIR || SETS == 1 || matrix == 0) {
        y0_store(p.sets[0].out_offset + row, v);
    } else if (SETS == 2 || matrix == 1) {
        y1_store(p.sets[1].out_offset + row, v);
    } else {
        y2_store(p.sets[2].out_offset + row, v);
    }
}

#ifdef SUBGROUP
// Adds up all streams at once: lane s (and those that differ from it in higher
// bits only) gets the sum of stream s. STREAMS is a power of two.
float stream_sums() {
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint bit = 1; bit < STREAMS; bit *= 2) {
        bool upper = (lane & bit) != 0;
        [[unroll]] for (uint i = 0; i < STREAMS / (2 * bit); i++) {
            float kept = upper ? acc[2 * i + 1] : acc[2 * i];
            float given = upper ? acc[2 * i] : acc[2 * i + 1];
            acc[i] = kept + subgroupShuffleXor(given, bit);
        }
    }
    float sum = acc[0];
    [[unroll]] for (uint bit = STREAMS; bit < gl_SubgroupSize; bit *= 2) {
        sum += subgroupShuffleXor(sum, bit);
    }
    return sum;
}

// The row that belongs to the lane, by its number among ROWS.
float row_result(float factor) {
    float v = stream_sums() * factor;
    return PAIR ? m_silu(v) * subgroupShuffleXor(v, ROWS) : v;
}
#else
float row_result(float factor) {
    float mine = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float v = slot_sum(acc[r]) * factor;
        if (PAIR) {
            v = m_silu(v) * (slot_sum(acc[STREAMS - ROWS + r]) * factor);
        }
        mine = slot_lane() == r ? v : mine;
    }
    return mine;
}
#endif

bool better(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

uvec2 winner = uvec2(0u, 0xffffffffu); // key and row of the lane's largest result

// Adds up the lanes' shares and stores the rows of a turn, lane r row r.
void finish(uint turn, float factor, float residual) {
    float mine = row_result(factor);
    uint row = row_of(turn) + slot_lane();
    if (slot_lane() >= ROWS || row >= p.sets[matrix].n) {
        return;
    }
    if (EPILOGUE == PROJECTION_ARG_MAX) {
        uint bits = float_to_bits(mine, y_DT);
        uvec2 candidate = uvec2(bits_nan(bits, y_DT) ? 0xffffffffu : order_key(bits, y_DT), row);
        winner = better(candidate, winner) ? candidate : winner;
    } else {
        store(row, EPILOGUE == PROJECTION_RESIDUAL ? mine + residual : mine);
    }
}

// The largest result of the workgroup, as a pair for the reduction that follows.
void store_winner(uint group) {
    if (slot_lane() < ROWS) {
        winners[slot_index() * ROWS + slot_lane()] = winner;
    }
    barrier();
    if (thread_index() == 0) {
        uvec2 best = winners[0];
        for (uint i = 1; i < slot_count() * ROWS; i++) {
            best = better(winners[i], best) ? winners[i] : best;
        }
        y0_32.data[p.sets[0].out_offset + 2 * group] = best.x;
        y0_32.data[p.sets[0].out_offset + 2 * group + 1] = best.y;
    }
}

void main() {
    uint group = workgroup_index();
    matrix = 0;
    if (!PAIR) {
        matrix = uint(SETS > 1 && group >= p.starts[0]) + uint(SETS > 2 && group >= p.starts[1]);
        group -= matrix == 0 ? 0 : p.starts[matrix - 1];
    }
    first_row = group * p.turns * slot_count() * ROWS;
    fetch(0);
    stage();
    [[unroll]] for (uint s = 0; s < STREAMS; s++) {
        acc[s] = 0.0;
    }
    uint steps = p.turns * PASSES;
    for (uint step = 0; step < steps; step++) {
        [[unroll]] for (uint i = 0; i < STREAMS * BATCH * BITS; i++) {
            words[i] = next_words[i];
        }
        [[unroll]] for (uint i = 0; i < STREAMS * BATCH; i++) {
            affine[i] = next_affine[i];
        }
        float residual = next_residual;
        if (step + 1 < steps) {
            fetch(step + 1);
        }
        uint pass = step % PASSES;
        [[unroll]] for (uint b = 0; b < BATCH; b++) {
            uint unit = slot_lane() + (pass * BATCH + b) * slot_lanes();
            if (unit < UNITS) {
                add_unit(unit, b);
            }
        }
        if (pass == PASSES - 1) {
            finish(step / PASSES, norm_factor(), residual);
            [[unroll]] for (uint s = 0; s < STREAMS; s++) {
                acc[s] = 0.0;
            }
        }
    }
    if (EPILOGUE == PROJECTION_ARG_MAX) {
        store_winner(group);
    }
}
