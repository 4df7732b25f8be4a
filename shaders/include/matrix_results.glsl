// Stores the sums of a product on cooperative matrices, which are in units of
// 2^(exponent of A's row + exponent of B's row). Rows that float16 parts cannot
// represent are flagged by the exponent NOT_FINITE, and their results are computed
// again in float32.
//
// Before the include: TENSOR_OUT and QUAD_BITS_OUT of y; RESULT_M and RESULT_N, the
// lengths of its axes, and RESULT_OFFSET, where it starts; uint place(m, n), where
// in y a result is, a multiple of 4 past RESULT_OFFSET where RESULT_N and n are such;
// int a_exponent(m), int b_exponent(n); and float plain_product(m, n). A kernel that
// stores something else than the products defines FINISHED(v), the four results from a
// multiple of 4 on for their products v; RESULT_N must be a multiple of 4 then.
#ifndef MATRIX_RESULTS_GLSL
#define MATRIX_RESULTS_GLSL

#ifndef FINISHED
#define FINISHED(v) (v)
#endif

bool a_flagged(uint m) { return m < RESULT_M && a_exponent(m) == NOT_FINITE; }
bool b_flagged(uint n) { return n < RESULT_N && b_exponent(n) == NOT_FINITE; }

// A result of a flagged row, if it exists.
void store_plain(uint m, uint n) {
    if (m < RESULT_M && n < RESULT_N) {
        y_store(place(m, n), FINISHED(vec4(plain_product(m, n)))[n & 3u]);
    }
}

// Stores four neighbouring results, of which the first exists. e, of_n: the exponents of their row and columns. Results
// of flagged ones are wrong, and must be stored again.
void store_scaled(uint m, uint n, vec4 v, int e, ivec4 of_n) {
    [[unroll]] for (uint c = 0; c < 4; c++) {
        v[c] = scale_by(v[c], clamp(e + of_n[c], -252, 252));
    }
    v = FINISHED(v);
    uvec4 bits;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        bits[c] = float_to_bits(v[c], y_DT);
    }
    if (RESULT_N % 4 == 0 && RESULT_OFFSET % 4 == 0) {
        y_set_quad_bits(place(m, n), bits);
        return;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (n + c < RESULT_N) {
            y_set_bits(place(m, n + c), bits[c]);
        }
    }
}

// The same for results of which perhaps none exists, of no flagged row.
void store_results(uint m, uint n, vec4 v) {
    if (m >= RESULT_M || n >= RESULT_N) {
        return;
    }
    ivec4 of_n;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        of_n[c] = b_exponent(min(n + c, RESULT_N - 1));
    }
    store_scaled(m, n, v, a_exponent(m), of_n);
}

#endif
