// The sums of quantized_matmul_bytes_coopmat: by cooperative matrices, or some in each thread.
//
// Before the include: tiles[], and where operands and results are in it; and the constants of matrix_blocks.glsl.
#ifndef BYTES_SUMS_GLSL
#define BYTES_SUMS_GLSL

// With codes of more than 4 bits, sums of three limbs may exceed 32 bits, so those of the highest limb are added
// separately.
const uint PARTS = BITS > 4 ? LIMBS - 1 : 1;

// The limbs of a part, from the highest, end_limb - 1, to last_limb; and what its integers are multiples of.
uint end_limb(uint part, uint limbs) { return limbs - part; }
uint last_limb(uint part, uint limbs) { return part + 1 < PARTS ? limbs - 1 : 0; }
float part_unit(uint part) { return part + 1 < PARTS ? float(1u << ((LIMBS - 1) * LIMB_BITS)) : 1.0; }

// PARTS and LIMBS, but where they are not 1, the compiler must not know them: it would unroll loops over them.
uint hidden(uint n) { return n == 1 ? 1 : min(p.x.rows + n - 1, n); }

#ifdef COOPMAT_KHR

#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require

#define X_MATRIX coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define W_MATRIX coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB>
#define INTEGERS coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define FLOATS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

FLOATS acc[ROWS][COLUMNS];
W_MATRIX codes[GROUP_STEPS][COLUMNS];
INTEGERS integers[ROWS][COLUMNS];

void load_codes(uint group) {
    uint from = W_FROM + wave_n() * PITCH + group * GROUP_QUADS;
    [[unroll]] for (uint k = 0; k < GROUP_STEPS; k++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            coopMatLoad(codes[k][j], tiles, from + j * FRAGMENT * PITCH + k * 2, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        }
    }
}

// Adds the products of a limb to the integers, which are those of the limbs above it.
void multiply_limb(uint group, uint limb) {
    uint from = (limb * TILE_M + wave_m()) * PITCH + group * GROUP_QUADS;
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            [[unroll]] for (uint e = 0; e < integers[i][j].length(); e++) {
                integers[i][j][e] <<= LIMB_BITS;
            }
        }
    }
    [[unroll]] for (uint k = 0; k < GROUP_STEPS; k++) {
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            X_MATRIX x;
            coopMatLoad(x, tiles, from + i * FRAGMENT * PITCH + k * 2, PITCH, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                integers[i][j] = coopMatMulAdd(x, codes[k][j], integers[i][j]);
            }
        }
    }
}

void multiply_part(uint group, uint part) {
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            integers[i][j] = INTEGERS(0);
        }
    }
    uint limbs = hidden(LIMBS);
    [[dont_unroll]] for (uint limb = end_limb(part, limbs); limb-- > last_limb(part, limbs);) {
        multiply_limb(group, limb);
    }
}

// Adds what a part has of a group to the sums.
void add_part(uint group, uint part) {
    multiply_part(group, part);
    uint from = FACTORS_FROM + group * GROUP_FACTORS;
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        FLOATS scale, bias;
        uint of_w = from + SCALES_AT + (wave_n() + j * FRAGMENT) / 4;
        coopMatLoad(scale, tiles, of_w, 0, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(bias, tiles, of_w + BIASES_AT - SCALES_AT, 0, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            FLOATS multiple, sum;
            uint of_x = from + (wave_m() + i * FRAGMENT) / 4;
            coopMatLoad(multiple, tiles, of_x, 0, gl_CooperativeMatrixLayoutColumnMajor);
            coopMatLoad(sum, tiles, of_x + SUMS_AT, 0, gl_CooperativeMatrixLayoutColumnMajor);
            FLOATS products_of = FLOATS(integers[i][j]); // whole matrices: a lane may have other elements of integers
            [[unroll]] for (uint e = 0; e < multiple.length(); e++) {
                float products = products_of[e] * multiple[e] * part_unit(part);
                float before = acc[i][j][e];
                if (part + 1 == PARTS) {
                    before = fma(sum[e], bias[e], before);
                }
                acc[i][j][e] = fma(products, scale[e], before);
            }
        }
    }
}

// Adds a group to the sums.
void add_group(uint group) {
    load_codes(group);
    [[dont_unroll]] for (uint part = 0; part < hidden(PARTS); part++) {
        add_part(group, part);
    }
}

void clear_sums() {
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            acc[i][j] = FLOATS(0.0);
        }
    }
}

// Writes the sums to the rows of results.
void stage_sums() {
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            uint at = (wave_m() + i * FRAGMENT) * RESULT_PITCH + (wave_n() + j * FRAGMENT) / 4;
            coopMatStore(acc[i][j], tiles, at, RESULT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
}

#else

#include "byte_dots.glsl"

float acc[TILE_M * TILE_N / THREADS]; // of neighbouring rows of w in neighbouring threads

uint row_of_x(uint i) { return (i * THREADS + gl_LocalInvocationIndex) / TILE_N; }
uint row_of_w(uint i) { return (i * THREADS + gl_LocalInvocationIndex) % TILE_N; }
float float_at(uint from, uint i) { return uintBitsToFloat(tiles[from + i / 4][i & 3u]); }

int part_integer(uint group, uint part, uint m, uint n) {
    int sum = 0;
    [[dont_unroll]] for (uint limb = end_limb(part, LIMBS); limb-- > last_limb(part, LIMBS);) {
        sum <<= LIMB_BITS;
        [[dont_unroll]] for (uint i = group * GROUP_QUADS; i < (group + 1) * GROUP_QUADS; i++) {
            uvec4 x = tiles[(limb * TILE_M + m) * PITCH + i], codes = tiles[W_FROM + n * PITCH + i];
            [[unroll]] for (uint c = 0; c < 4; c++) {
                sum += dot_signed(x[c], codes[c], 0);
            }
        }
    }
    return sum;
}

void add_group(uint group) {
    uint from = FACTORS_FROM + group * GROUP_FACTORS;
    [[dont_unroll]] for (uint i = 0; i < acc.length(); i++) {
        uint m = row_of_x(i), n = row_of_w(i);
        float sum = fma(float_at(from + SUMS_AT, m), float_at(from + BIASES_AT, n), acc[i]);
        [[dont_unroll]] for (uint part = 0; part < PARTS; part++) {
            float products = float(part_integer(group, part, m, n)) * float_at(from, m) * part_unit(part);
            sum = fma(products, float_at(from + SCALES_AT, n), sum);
        }
        acc[i] = sum;
    }
}

void clear_sums() {
    [[dont_unroll]] for (uint i = 0; i < acc.length(); i++) {
        acc[i] = 0.0;
    }
}

void stage_sums() {
    [[dont_unroll]] for (uint i = 0; i < acc.length(); i++) {
        tiles[row_of_x(i) * RESULT_PITCH + row_of_w(i) / 4][row_of_w(i) & 3u] = floatBitsToUint(acc[i]);
    }
}

#endif

#endif
