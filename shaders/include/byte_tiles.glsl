// Products of 16 by 32 codes with 32 by SIDE digits of x, of projection_coopmat: by a
// cooperative matrix of a team, or with some of its elements in each of the team's 32
// lanes.
//
// Before the include: work[], shared memory by quads; rows_of_x[], as projection_rows.comp
// writes it; UNITS, COLS, LANES, SIDE, TILES, and EVEN, whether there is every unit; in
// quads, what is from row to row of codes, PITCH, of sums, SUM_PITCH, and of digits of x,
// X_PITCH, and where HELD_MULTIPLES and HELD_SUMS of a unit are.
#ifndef BYTE_TILES_GLSL
#define BYTE_TILES_GLSL

// The sum of squares of a unit of a row.
float unit_squares(uint of_x, uint row) {
    return uintBitsToFloat(rows_of_x[of_x * X_UNIT(SIDE) + X_SQUARES(SIDE) + row / 4][row & 3u]);
}

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

DIGITS taken_digits[3];
FLOATS taken_multiples, taken_sums;
FLOATS taken_scales[TILES], taken_biases[TILES];

// Loads the unit of x that begins at work[x].
void take_unit(uint x) {
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        coopMatLoad(taken_digits[digit], work, x + digit * SIDE * X_PITCH, X_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    }
    coopMatLoad(taken_multiples, work, x + HELD_MULTIPLES, 0, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(taken_sums, work, x + HELD_SUMS, 0, gl_CooperativeMatrixLayoutRowMajor);
}

// Loads the scales and biases of a tile from work[group].
void take_scales(uint t, uint group) {
    coopMatLoad(taken_scales[t], work, group, 0, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatLoad(taken_biases[t], work, group + 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
}

// The product of the codes that begin at work[a] with the three digits of a unit, combined.
void multiply_bytes(uint a, out INTEGERS products) {
    CODES codes;
    coopMatLoad(codes, work, a, PITCH, gl_CooperativeMatrixLayoutRowMajor);
    products = INTEGERS(0);
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        if (digit > 0) {
            [[unroll]] for (uint i = 0; i < products.length(); i++) {
                products[i] <<= 8;
            }
        }
        products = coopMatMulAdd(codes, taken_digits[2 - digit], products);
    }
}

// The contribution of a unit to a tile.
void unit_floats(INTEGERS products, uint t, bool exists, out FLOATS result) {
    [[unroll]] for (uint i = 0; i < result.length(); i++) {
        float v = unit_result(taken_multiples[i] * float(products[i]), taken_scales[t][i], taken_biases[t][i], taken_sums[i]);
        result[i] = EVEN || exists ? v : 0.0;
    }
}

// 1/rms of a row of the block. The lanes of projection.comp sum the squares.
float row_factor(uint block, uint row) {
    float sum = 0.0;
    for (uint unit = team_lane() % LANES; unit < UNITS; unit += LANES) {
        sum += unit_squares(block * UNITS + unit, row);
    }
    [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        sum += subgroupShuffleXor(sum, bit);
    }
    return norm_factor(sum, COLS, p.eps);
}

#define floats_clear(f) f = FLOATS(0.0)
#define floats_add(to, more) to = to + more
// By columns: the results of 16 rows of w for a row of x are contiguous.
#define floats_store(f, at) coopMatStore(f, work, at, SUM_PITCH, gl_CooperativeMatrixLayoutColumnMajor)

#else

#include "byte_dots.glsl"

// Not unrolled: that would take the compilers of CPU drivers half a minute.
#define UNROLL [[dont_unroll]]

const uint ELEMENTS = SIDE / 2; // of a lane, 8 at most
struct Integers { int v[8]; };
struct Floats { float v[8]; };
#define INTEGERS Integers
#define FLOATS Floats

uint team() { return gl_LocalInvocationIndex / 32; }
uint team_lane() { return gl_LocalInvocationIndex % 32; }

void team_barrier() { barrier(); }

// A lane's elements are of one row of w, and of half of the rows of x.
uint row_of_lane() { return team_lane() / 2; }
uint column_of_lane(uint i) { return team_lane() % 2 * ELEMENTS + i; }

uint taken_group[TILES], taken_x;

void take_unit(uint x) { taken_x = x; } // it is read when it is needed
void take_scales(uint t, uint group) { taken_group[t] = group; }

void multiply_bytes(uint a, out INTEGERS products) {
    uvec4 codes[2] = uvec4[2](work[a + row_of_lane() * PITCH], work[a + row_of_lane() * PITCH + 1]);
    UNROLL for (uint i = 0; i < ELEMENTS; i++) {
        int sum = 0;
        [[unroll]] for (uint digit = 0; digit < 3; digit++) {
            sum <<= 8;
            [[unroll]] for (uint j = 0; j < 2; j++) {
                uvec4 x = work[taken_x + ((2 - digit) * SIDE + column_of_lane(i)) * X_PITCH + j];
                [[unroll]] for (uint k = 0; k < 4; k++) {
                    sum += dot_signed(codes[j][k], x[k], 0);
                }
            }
        }
        products.v[i] = sum;
    }
}

void unit_floats(INTEGERS products, uint t, bool exists, out FLOATS result) {
    uint group = taken_group[t];
    float scale = uintBitsToFloat(work[group + row_of_lane() / 4][row_of_lane() & 3u]);
    float bias = uintBitsToFloat(work[group + 4 + row_of_lane() / 4][row_of_lane() & 3u]);
    uint multiples = taken_x + HELD_MULTIPLES, sums = taken_x + HELD_SUMS;
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        uint n = column_of_lane(i);
        float multiple = uintBitsToFloat(work[multiples + n / 4][n & 3u]);
        float sum = uintBitsToFloat(work[sums + n / 4][n & 3u]);
        float v = unit_result(multiple * float(products.v[i]), scale, bias, sum);
        result.v[i] = exists ? v : 0.0;
    }
}

float row_factor(uint block, uint row) {
    float sums[32];
    [[dont_unroll]] for (uint i = 0; i < LANES; i++) {
        sums[i] = 0.0;
        [[dont_unroll]] for (uint unit = i; unit < UNITS; unit += LANES) {
            sums[i] += unit_squares(block * UNITS + unit, row);
        }
    }
    [[dont_unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        [[dont_unroll]] for (uint i = 0; i < LANES; i += 2 * bit) {
            sums[i] += sums[i + bit];
        }
    }
    return norm_factor(sums[0], COLS, p.eps);
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
