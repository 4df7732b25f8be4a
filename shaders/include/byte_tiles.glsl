// Products of 16 by 32 codes with 32 by SIDE digits of x, of projection_coopmat: by a
// cooperative matrix of a team, or some elements of it to each of its 32 lanes.
//
// Before the include: work[], shared memory by quads; digits[] and units[], as
// projection_rows.comp writes them; SIDE, HELD and CHUNK; quads from row to row of
// codes, PITCH, and of sums, SUM_PITCH.
#ifndef BYTE_TILES_GLSL
#define BYTE_TILES_GLSL

#ifdef COOPMAT_KHR

#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require

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

// What a team keeps of x, of its chunk or of the unit that it is at.
const uint KEPT = HELD != 0 ? CHUNK : 1;
DIGITS kept_digits[KEPT * 3];
FLOATS kept_multiples[KEPT], kept_sums[KEPT];

uint kept(uint u) { return HELD != 0 ? u : 0; }

// Loads unit u of the chunk, which is number of_x of all.
void take_unit(uint u, uint of_x) {
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        coopMatLoad(kept_digits[kept(u) * 3 + digit], digits, (of_x * 3 + digit) * SIDE * 2, 2,
                    gl_CooperativeMatrixLayoutColumnMajor);
    }
    coopMatLoad(kept_multiples[kept(u)], units, of_x * (SIDE / 2), 0, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(kept_sums[kept(u)], units, of_x * (SIDE / 2) + SIDE / 4, 0, gl_CooperativeMatrixLayoutRowMajor);
}

// The codes that begin at work[a] times the three digits of unit u, put together.
void multiply_bytes(uint a, uint u, uint of_x, out INTEGERS products) {
    CODES codes;
    coopMatLoad(codes, work, a, PITCH, gl_CooperativeMatrixLayoutRowMajor);
    products = INTEGERS(0);
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        if (digit > 0) {
            [[unroll]] for (uint i = 0; i < products.length(); i++) {
                products[i] <<= 8;
            }
        }
        products = coopMatMulAdd(codes, kept_digits[kept(u) * 3 + 2 - digit], products);
    }
}

// What unit u gives: scales and biases of the rows of w are at work[group].
void unit_floats(INTEGERS products, uint group, uint u, uint of_x, bool exists, out FLOATS result) {
    FLOATS scales, biases;
    coopMatLoad(scales, work, group, 0, gl_CooperativeMatrixLayoutColumnMajor);
    coopMatLoad(biases, work, group + 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint i = 0; i < result.length(); i++) {
        float v = unit_result(kept_multiples[kept(u)][i] * float(products[i]), scales[i], biases[i], kept_sums[kept(u)][i]);
        result[i] = exists ? v : 0.0;
    }
}

#define floats_add(to, more) to = to + more
// By columns: the 16 rows of w of a row of x lie side by side.
#define floats_store(f, at) coopMatStore(f, work, at, SUM_PITCH, gl_CooperativeMatrixLayoutColumnMajor)

#else

#include "byte_dots.glsl"

// Unrolled, what follows takes compilers of CPU drivers half a minute.
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

void take_unit(uint u, uint of_x) {} // it is read where it is needed

void multiply_bytes(uint a, uint u, uint of_x, out INTEGERS products) {
    uvec4 codes[2] = uvec4[2](work[a + row_of_lane() * PITCH], work[a + row_of_lane() * PITCH + 1]);
    UNROLL for (uint i = 0; i < ELEMENTS; i++) {
        int sum = 0;
        [[unroll]] for (uint digit = 0; digit < 3; digit++) {
            sum <<= 8;
            [[unroll]] for (uint j = 0; j < 2; j++) {
                uvec4 x = digits[((of_x * 3 + 2 - digit) * SIDE + column_of_lane(i)) * 2 + j];
                [[unroll]] for (uint k = 0; k < 4; k++) {
                    sum += dot_signed(codes[j][k], x[k], 0);
                }
            }
        }
        products.v[i] = sum;
    }
}

void unit_floats(INTEGERS products, uint group, uint u, uint of_x, bool exists, out FLOATS result) {
    float scale = uintBitsToFloat(work[group + row_of_lane() / 4][row_of_lane() & 3u]);
    float bias = uintBitsToFloat(work[group + 4 + row_of_lane() / 4][row_of_lane() & 3u]);
    uint multiples = of_x * (SIDE / 2), sums = multiples + SIDE / 4;
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        uint n = column_of_lane(i);
        float v = unit_result(units[multiples + n / 4][n & 3u] * float(products.v[i]), scale, bias, units[sums + n / 4][n & 3u]);
        result.v[i] = exists ? v : 0.0;
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
