// Products of 16 by 32 codes with 32 by SIDE digits of x, of projection_coopmat: by a
// cooperative matrix of a team, or with some of its elements in each of the team's 32
// lanes.
//
// A span's sums (unit_integers.glsl) are begun by begin_span, added up unit by unit by
// multiply_bytes, and become floats by span_floats.
//
// Before the include: code_bytes.glsl; work[], shared memory by quads; HELD_UNITS and
// HELD_TILES, of how many units of x and of how many tiles the team holds what it
// multiplies with; SIDE, and EVEN, whether there is every unit; and in quads, what is
// from row to row of codes, PITCH, of sums, SUM_PITCH, and of digits of x, HELD_PITCH,
// and from the multiples of a span of x to its sums and from there to what sums of
// products begin with, UNIT_SUMS.
#ifndef BYTE_TILES_GLSL
#define BYTE_TILES_GLSL

#ifdef COOPMAT_KHR

#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require

#extension GL_KHR_shader_subgroup_shuffle : require

#define UNROLL [[unroll]]

#define CODES coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define DIGITS coopmat<int8_t, gl_ScopeSubgroup, 32, SIDE, gl_MatrixUseB>
#define INTEGERS coopmat<int, gl_ScopeSubgroup, 16, SIDE, gl_MatrixUseAccumulator>
#define FLOATS coopmat<float, gl_ScopeSubgroup, 16, SIDE, gl_MatrixUseAccumulator>

uint team() { return gl_SubgroupID; }
uint team_lane() { return gl_SubgroupInvocationID; }

void team_barrier() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

DIGITS held_digits[HELD_UNITS * 3];
FLOATS held_multiples[HELD_UNITS], held_sums[HELD_UNITS];
INTEGERS held_starts[HELD_UNITS];
FLOATS held_scales[HELD_TILES], held_biases[HELD_TILES];
INTEGERS span_sums[HELD_TILES * 3]; // by digits of x

// Loads the unit of x whose digits begin at work[digits].
void hold_unit(uint u, uint digits) {
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        coopMatLoad(held_digits[u * 3 + digit], work, digits + digit * SIDE * HELD_PITCH, HELD_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    }
}

// Loads what belongs to the span of unit u from work[multiples] on.
void hold_span(uint u, uint multiples) {
    coopMatLoad(held_multiples[u], work, multiples, 0, gl_CooperativeMatrixLayoutRowMajor);
    if (!SMALL_FLOATS) { // which have no biases
        coopMatLoad(held_sums[u], work, multiples + UNIT_SUMS, 0, gl_CooperativeMatrixLayoutRowMajor);
    }
    if (SPAN > 1) {
        coopMatLoad(held_starts[u], work, multiples + 2 * UNIT_SUMS, 0, gl_CooperativeMatrixLayoutRowMajor);
    }
}

// Loads the scales and biases of a tile from work[group].
void hold_scales(uint t, uint group) {
    coopMatLoad(held_scales[t], work, group, 0, gl_CooperativeMatrixLayoutColumnMajor);
    if (SMALL_FLOATS) {
        return;
    }
    coopMatLoad(held_biases[t], work, group + 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
}

void begin_span(uint t) {
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        span_sums[t * 3 + digit] = INTEGERS(0);
    }
}

// Adds the products of the codes that begin at work[a] with the digits of a unit.
void multiply_bytes(uint a, uint u, uint t) {
    CODES codes;
    coopMatLoad(codes, work, a, PITCH, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        span_sums[t * 3 + digit] = coopMatMulAdd(codes, held_digits[u * 3 + digit], span_sums[t * 3 + digit]);
    }
}

// The sum of a span's products with x; unit u holds the multiples of the span. Which elements of a matrix a lane has may
// differ between types, so integers are converted by whole matrices.
FLOATS span_products(uint u, uint t) {
    INTEGERS rest = span_sums[t * 3], carried = rest;
    [[unroll]] for (uint i = 0; i < rest.length(); i++) {
        int sum = (span_sums[t * 3 + 1][i] << 8) + rest[i] + (SPAN > 1 ? held_starts[u][i] : 0);
        ivec2 parts = code_sum_parts(span_sums[t * 3 + 2][i], sum);
        carried[i] = parts.x;
        rest[i] = parts.y;
    }
    FLOATS result = FLOATS(rest), upper = FLOATS(carried);
    [[unroll]] for (uint i = 0; i < result.length(); i++) {
        result[i] = held_multiples[u][i] * join_code_sum(upper[i], result[i]);
    }
    return result;
}

// The contribution of a span to a tile.
void span_floats(uint u, uint t, bool exists, out FLOATS result) {
    FLOATS products = span_products(u, t);
    [[unroll]] for (uint i = 0; i < result.length(); i++) {
        float v = SMALL_FLOATS ? unit_product(products[i], held_scales[t][i], 0.0, 0.0)
                               : unit_product(products[i], held_scales[t][i], held_biases[t][i], held_sums[u][i]);
        result[i] = EVEN || exists ? v : 0.0;
    }
}

// Adds the contribution of the other half of a unit, which has another scale: the same as in projection_dot.glsl.
void add_half(uint u, uint t, bool exists, inout FLOATS result) {
    FLOATS products = span_products(u, t);
    [[unroll]] for (uint i = 0; i < result.length(); i++) {
        result[i] = EVEN || exists ? fma(held_scales[t][i], products[i], result[i]) : 0.0;
    }
}

#define floats_clear(f) f = FLOATS(0.0)
#define floats_add(to, more) to = to + more
// Stores by columns: the results of 16 rows of w for a row of x are contiguous.
#define floats_store(f, at) coopMatStore(f, work, at, SUM_PITCH, gl_CooperativeMatrixLayoutColumnMajor)

#else

#include "byte_dots.glsl"

// Not unrolled: that would take the compilers of CPU drivers half a minute.
#define UNROLL [[dont_unroll]]

const uint ELEMENTS = SIDE / 2; // of a lane, 8 at most
struct Integers { int v[8]; };
struct Floats { float v[8]; };
#define FLOATS Floats

uint team() { return gl_LocalInvocationIndex / 32; }
uint team_lane() { return gl_LocalInvocationIndex % 32; }

void team_barrier() { barrier(); }

// A lane's elements are of one row of w, and of half of the rows of x.
uint row_of_lane() { return team_lane() / 2; }
uint column_of_lane(uint i) { return team_lane() % 2 * ELEMENTS + i; }

uint held_group[HELD_TILES], held_digits[HELD_UNITS], held_multiples[HELD_UNITS];
Integers high_sums[HELD_TILES], other_sums[HELD_TILES]; // with the highest digits of x, and with the others

// They are read when they are needed.
void hold_unit(uint u, uint digits) { held_digits[u] = digits; }
void hold_span(uint u, uint multiples) { held_multiples[u] = multiples; }
void hold_scales(uint t, uint group) { held_group[t] = group; }

int digit_product(uvec4 codes[2], uint digits) {
    int sum = 0;
    [[unroll]] for (uint j = 0; j < 2; j++) {
        [[unroll]] for (uint k = 0; k < 4; k++) {
            sum += dot_signed(codes[j][k], work[digits + j][k], 0);
        }
    }
    return sum;
}

void begin_span(uint t) {
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        high_sums[t].v[i] = other_sums[t].v[i] = 0;
    }
}

void multiply_bytes(uint a, uint u, uint t) {
    uvec4 codes[2] = uvec4[2](work[a + row_of_lane() * PITCH], work[a + row_of_lane() * PITCH + 1]);
    UNROLL for (uint i = 0; i < ELEMENTS; i++) {
        uint digits = held_digits[u] + column_of_lane(i) * HELD_PITCH, step_ = SIDE * HELD_PITCH;
        high_sums[t].v[i] += digit_product(codes, digits + 2 * step_);
        other_sums[t].v[i] += (digit_product(codes, digits + step_) << 8) + digit_product(codes, digits);
    }
}

uint row_bits(uint from, uint n) { return work[from + n / 4][n & 3u]; }
float row_value(uint from, uint n) { return uintBitsToFloat(row_bits(from, n)); }

float span_products(uint u, uint t, uint i) {
    uint n = column_of_lane(i), multiples = held_multiples[u];
    int start = SPAN > 1 ? int(row_bits(multiples + 2 * UNIT_SUMS, n)) : 0;
    return row_value(multiples, n) * code_sum(high_sums[t].v[i], other_sums[t].v[i] + start);
}

void span_floats(uint u, uint t, bool exists, out FLOATS result) {
    float scale = row_value(held_group[t], row_of_lane()), bias = row_value(held_group[t] + 4, row_of_lane());
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        float sum = row_value(held_multiples[u] + UNIT_SUMS, column_of_lane(i));
        result.v[i] = exists ? unit_product(span_products(u, t, i), scale, bias, sum) : 0.0;
    }
}

void add_half(uint u, uint t, bool exists, inout FLOATS result) {
    float scale = row_value(held_group[t], row_of_lane());
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        result.v[i] = exists ? fma(scale, span_products(u, t, i), result.v[i]) : 0.0;
    }
}

void floats_clear(out FLOATS f) {
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        f.v[i] = 0.0;
    }
}

void floats_add(inout FLOATS to, FLOATS more) {
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        to.v[i] += more.v[i];
    }
}

void floats_store(FLOATS f, uint at) {
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        uint to = column_of_lane(i) * SUM_PITCH * 4 + row_of_lane();
        work[at + to / 4][to & 3u] = floatBitsToUint(f.v[i]);
    }
}

#endif

#endif
