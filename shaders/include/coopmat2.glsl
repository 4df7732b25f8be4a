// Functions of a matrix of scores in registers, for attention. Only this extension
// says which elements a lane holds; with the KHR form alone, scores go through
// shared memory (sdpa_coopmat).
#ifndef COOPMAT2_GLSL
#define COOPMAT2_GLSL

#extension GL_NV_cooperative_matrix2 : require

// Each element of m becomes f(row, column, element, arg), for a function of (const in uint, const in uint, const in
// float, const in …).
#define matrix_map(m, f, arg) coopMatPerElementNV(m, m, f, arg)

float larger_of(const in float a, const in float b) { return max(a, b); }

// Sets every element of a row to the largest of the row.
void matrix_row_max(out MATRIX_C rows, MATRIX_C m) { coopMatReduceNV(rows, m, gl_CooperativeMatrixReduceRowNV, larger_of); }

// Converts sums to the first operand of a product, rounded to float16.
MATRIX_A matrix_operand(MATRIX_C m) { return MATRIX_A(m); }

#endif
