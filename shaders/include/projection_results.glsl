// For projection.comp: its sums, and what is done with them.
#ifndef PROJECTION_RESULTS_GLSL
#define PROJECTION_RESULTS_GLSL

// Indexed by row of x, matrix of a pair, slice, and row of the workgroup.
shared float parts[X_ROWS * (PAIR ? 2 : 1) * SLICES * GROUP_ROWS];

uint part_at(uint m, uint second, uint slice) { return ((m * (PAIR ? 2 : 1) + second) * SLICES + slice) * GROUP_ROWS; }

// Lane s has the sum of stream s of a slice.
void put_part(uint m, uint slice, uint turn, float sum) {
    parts[part_at(m, lane() / ROWS, slice) + turn_row(turn) + lane() % ROWS] = sum;
}

// The sum of the products of row i of the workgroup with those elements of row m of x that are not finite.
float not_finite_sum(uint m, uint second, uint i) {
    uint set = PAIR ? second : matrix;
    SUM_NOT_FINITE(UNITS, p.x_rows, x_in(m, unit * 8 + j),
                   set == 0 ? weight0(first_row + i, unit, code)
                   : set == 1 ? weight1(first_row + i, unit, code)
                              : weight2(first_row + i, unit, code))
}

float whole(uint m, uint second, uint i) {
    float sum = 0.0;
    [[unroll]] for (uint slice = 0; slice < SLICES; slice++) {
        sum += parts[part_at(m, second, slice) + i];
    }
    // The norm of such a row is NaN, and sums of floats without biases are as they should be, so neither needs this.
    bool is_right = NORM != 0 || (SMALL_FLOATS && !LIMBS) || is_finite(sum) || first_row + i >= p.sets[matrix].n;
    return is_right ? sum : mended(sum, not_finite_sum(m, second, i));
}

uint residual_first; // of row thread_index() of the workgroup

uint residual_at(uint m, uint row) { return p.residual_offset + x_row(m) * p.sets[0].n + min(row, p.sets[0].n - 1); }

uint residual_in(uint at) { return OVERLAPS(RESIDUAL_BINDING) ? awaited_residual.data[at] : residual_bits(at); }

void fetch_residual() {
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        residual_first = residual_in(residual_at(0, first_row + thread_index()));
    }
}

void store(uint m, uint row, float v) {
    uint at = x_row(m) * p.sets[matrix].n + row;
    if (PAIR || SETS == 1 || matrix == 0) {
        y0_store(p.sets[0].out_offset + at, as_given(RESULT_BINDING(0), v));
    } else if (SETS == 2 || matrix == 1) {
        y1_store(p.sets[1].out_offset + at, as_given(RESULT_BINDING(1), v));
    } else {
        y2_store(p.sets[2].out_offset + at, as_given(RESULT_BINDING(2), v));
    }
}

bool better(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

shared uvec2 winners[EPILOGUE == PROJECTION_ARG_MAX ? THREADS : 1];

// The largest result of the workgroup's rows for a row of x, as a pair for the
// following reduction.
void store_winner(uint m, uvec2 winner) {
    winners[thread_index()] = winner;
    for (uint reach = 512; reach > 0; reach /= 2) {
        barrier();
        if (thread_index() < reach && thread_index() + reach < THREADS) {
            uvec2 other = winners[thread_index() + reach];
            winner = better(other, winner) ? other : winner;
            winners[thread_index()] = winner;
        }
    }
    if (thread_index() == 0 && first_row < p.sets[0].n) { // a folded grid has workgroups without rows
        uint at = p.sets[0].out_offset + 2 * (x_row(m) * gl_NumWorkGroups.x * gl_NumWorkGroups.y + group);
        y0_32.data[at] = winner.x;
        y0_32.data[at + 1] = winner.y;
    }
}

// Adds up the parts of the workgroup's rows, and stores them.
void finish() {
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        uvec2 winner = uvec2(0u, 0xffffffffu); // key and row of the thread's largest result
        for (uint i = thread_index(); i < GROUP_ROWS; i += THREADS) {
            uint row = first_row + i;
            if (row >= p.sets[matrix].n || gl_WorkGroupID.z * X_ROWS + m >= p.x_rows) {
                continue;
            }
            float v = scaled_result(whole(m, 0, i), factors[m]);
            if (PAIR) {
                v = silu_mul_result(v, scaled_result(whole(m, 1, i), factors[m]));
            }
            if (EPILOGUE == PROJECTION_ARG_MAX) {
                uint bits = float_to_bits(v, y_DT);
                uvec2 candidate = uvec2(bits_nan(bits, y_DT) ? 0xffffffffu : order_key(bits, y_DT), row);
                winner = better(candidate, winner) ? candidate : winner;
                continue;
            }
            if (EPILOGUE == PROJECTION_RESIDUAL) {
                uint bits = m == 0 && i == thread_index() ? residual_first : residual_in(residual_at(m, row));
                while (OVERLAPS(RESIDUAL_BINDING) && is_missing(bits)) {
                    bits = residual_in(residual_at(m, row));
                }
                v += bits_to_float(bits, y_DT);
            }
            store(m, row, v);
        }
        if (EPILOGUE == PROJECTION_ARG_MAX) {
            store_winner(m, winner);
            barrier();
        }
    }
}

#endif
