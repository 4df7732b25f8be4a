// Results of projection_coopmat, projection_held and projection_join: what is done about those that are not finite, and
// stores.
//
// Before the include: what these kernels declare of matrices; OVERLAP; x_in(at), four elements of x; and block, the first
// block of rows of x of the workgroup.
#ifndef BYTE_TILE_STORES_GLSL
#define BYTE_TILE_STORES_GLSL

#include "not_finite.glsl"
#include "overlap.glsl"

void store(uint matrix, uint row_of_x, uint row, float v) {
    uint at = row_of_x * p.sets[matrix].n + row;
    if (PAIR || SETS == 1 || matrix == 0) {
        y0_store(p.sets[0].out_offset + at, as_given(4, v));
    } else if (SETS == 2 || matrix == 1) {
        y1_store(p.sets[1].out_offset + at, as_given(8, v));
    } else {
        y2_store(p.sets[2].out_offset + at, as_given(12, v));
    }
}

// The sum of the products of a row of a matrix with those elements of row `row` of the blocks that are not finite.
float not_finite_sum(uint set, uint w_row, uint row) {
    uint from = p.x_offset + (block * SIDE + row) * COLS;
    SUM_NOT_FINITE(UNITS, p.x_rows, x_in(from + unit * 32 + 4 * j),
                   set == 0 ? weight0(w_row, unit, code)
                   : set == 1 ? weight1(w_row, unit, code)
                              : weight2(w_row, unit, code))
}

// Whether a sum is a result as it is: with a norm, one that is not finite makes NaN anyway.
bool stays(float sum) { return NORM != 0 || is_finite(sum); }

float whole(float sum, uint set, uint w_row, uint row) {
    return stays(sum) ? sum : mended(sum, not_finite_sum(set, w_row, row));
}

#endif
