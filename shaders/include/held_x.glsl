// x of projection_held: each team makes the digits of its units (unit_digits.glsl), four lanes to a row of a unit, puts
// them into shared memory and takes them from there as matrices. In place of rows beyond the last, the last one is
// repeated.
#ifndef HELD_X_GLSL
#define HELD_X_GLSL

// Where a unit of x is put. As matrices, the next one goes to the same place.
uint x_from(uint u) { return team_from(team()) + (X_UNITS == 0 ? 0 : TEAM_OPERANDS + u * HELD_UNIT); }

const uint PASSES = SIDE / 8; // over the rows of a unit, four lanes to a row

vec4 x_low[MOST_CHUNK * MOST_PASSES], x_high[MOST_CHUNK * MOST_PASSES], gain_low[MOST_CHUNK], gain_high[MOST_CHUNK];

uint pass_row(uint pass) { return pass * 8 + team_lane() / 4; }

uint unit_column(uint u, uint unit) { return min(unit + u, UNITS - 1) * 32 + team_lane() % 4 * 8; }

void fetch_unit(uint u, uint unit) {
    [[unroll]] for (uint pass = 0; pass < PASSES; pass++) {
        uint row = min(block * SIDE + pass_row(pass), p.x_rows - 1), from = p.x_offset + row * COLS + unit_column(u, unit);
        x_low[u * MOST_PASSES + pass] = x_in(from);
        x_high[u * MOST_PASSES + pass] = x_in(from + 4);
    }
}

bool unit_is_missing(uint u) {
    bool missing = false;
    [[unroll]] for (uint pass = 0; pass < PASSES; pass++) {
        missing = missing || x_is_missing(x_low[u * MOST_PASSES + pass]) || x_is_missing(x_high[u * MOST_PASSES + pass]);
    }
    return missing;
}

void fetch_gain(uint u, uint unit) {
    if (NORM == 2) {
        gain_low[u] = gain_quad(p.gain_offset + unit_column(u, unit));
        gain_high[u] = gain_quad(p.gain_offset + unit_column(u, unit) + 4);
    }
}

// Where the sum of squares of a unit of a round is, in floats: in the place of the teams' results.
uint square_at(uint row, uint unit) {
    return (sums_from(unit / CHUNK, 0) + row * ((CHUNK + 3) / 4)) * 4 + unit % CHUNK;
}

// For each unit and pass: the bits of the largest element and the sum; in the place of a span's first unit, both are of
// the whole span, and the sum of its integers is there, too.
const uint MOST_ROWS = MOST_CHUNK * MOST_PASSES;
uint largest[MOST_ROWS];
float sums_of_x[MOST_ROWS];
int sums_of_integers[MOST_ROWS];

// Adds the lane's eight columns of a unit, times the gain, to these. Units are added up by pairs, as neighbouring lanes
// are in unit_digits.
void measure_eight(uint u, uint pass) {
    uint at = u * MOST_PASSES + pass, first = u / SPAN * SPAN * MOST_PASSES + pass;
    if (NORM != 0) {
        float square = sum_of_lanes(squares_of_eight(x_low[at], x_high[at]), 4);
        if (team_lane() % 4 == 0) {
            uint to = square_at(pass_row(pass), team() * CHUNK + u);
            work[to / 4][to & 3u] = floatBitsToUint(square);
        }
    }
    if (NORM == 2) {
        x_low[at] = gained(x_low[at], gain_low[u]);
        x_high[at] = gained(x_high[at], gain_high[u]);
    }
    largest[at] = largest_of_eight(x_low[at], x_high[at]);
    largest[first] = max(largest[first], largest[at]);
    sums_of_x[at] = sum_of_lanes(sum_of_eight(x_low[at], x_high[at]), 4);
    if (SPAN > 1 && u % 2 == 1) {
        sums_of_x[at - MOST_PASSES] += sums_of_x[at];
    }
    if (SPAN > 2 && u % 4 == 3) {
        sums_of_x[first] += sums_of_x[at - MOST_PASSES];
    }
    if (u % SPAN == SPAN - 1) {
        largest[first] = largest_of_lanes(largest[first], 4);
        sums_of_integers[first] = 0;
    }
}

// Columns 8i to 8i + 7 of a unit of a row, which four lanes share; with the last unit of a span, also the span's
// multiple, sum and start.
void put_eight(uint to, uint u, uint pass) {
    uint i = team_lane() % 4, row = pass_row(pass);
    uint at = u * MOST_PASSES + pass, first = u / SPAN * SPAN * MOST_PASSES + pass;
    uint exponent = span_exponent(largest[first]);
    ivec4 a = integers(x_low[at], exponent), b = integers(x_high[at], exponent);
    uvec2 digits[3] = digits_of(a, b, EVEN_FIRST);
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        uint quad = to + (digit * SIDE + row) * HELD_PITCH + i / 2;
        work[quad][i % 2 * 2] = digits[digit].x;
        work[quad][i % 2 * 2 + 1] = digits[digit].y;
    }
    sums_of_integers[first] += sum_of_integers(a + b);
    if (u % SPAN != SPAN - 1) {
        return;
    }
    int start = start_of(sum_of_lanes(sums_of_integers[first], 4));
    if (i == 0) {
        work[to + HELD_MULTIPLES + row / 4][row & 3u] = floatBitsToUint(span_multiple(exponent));
        work[to + HELD_SUMS + row / 4][row & 3u] = floatBitsToUint(sums_of_x[first]);
        work[to + HELD_STARTS + row / 4][row & 3u] = uint(start);
    }
}

// The round's share of a lane's sum of squares in projection.comp.
float add_squares(float sum, uint row, uint lane, uint round_) {
    for (uint unit = lane; unit < ROUND_UNITS && round_ * ROUND_UNITS + unit < UNITS; unit += LANES) {
        uint at = square_at(row, unit);
        sum += uintBitsToFloat(work[at / 4][at & 3u]);
    }
    return sum;
}

void make_unit(uint u) {
    put_eight(x_from(u), u, 0);
    if (PASSES > 1) {
        put_eight(x_from(u), u, 1);
    }
    team_barrier();
    hold_unit(u, x_from(u));
    if (u % SPAN == SPAN - 1) {
        hold_span(u, x_from(u) + HELD_MULTIPLES);
    }
    team_barrier();
}

void measure_unit(uint u) {
    measure_eight(u, 0);
    if (PASSES > 1) {
        measure_eight(u, 1);
    }
}

#ifdef COOPMAT_KHR

// 1/rms of the rows of the block: its threads are the lanes of projection.comp, by rows.
float squares_so_far[2]; // CHUNK is 4 at most, so there is a thread for every second lane or for all

void find_factors(uint round_) {
    [[unroll]] for (uint k = 0; k < (SIDE * LANES + THREADS - 1) / THREADS; k++) {
        uint i = k * THREADS + gl_LocalInvocationIndex, row = i / LANES, lane = i % LANES;
        if (i / 32 * 32 < SIDE * LANES) { // whole subgroups
            squares_so_far[k] = add_squares(round_ == 0 ? 0.0 : squares_so_far[k], row, lane, round_);
            float sum = squares_so_far[k];
            [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
                sum += subgroupShuffleXor(sum, bit);
            }
            if (lane == 0) {
                factors[row] = norm_factor(sum, COLS, p.eps);
            }
        }
    }
}

#else

// As with matrices, but a thread adds up what the lanes of a row have.
void find_factors(uint round_) {
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < SIDE * LANES; i += THREADS) {
        squares_so_far[i] = add_squares(round_ == 0 ? 0.0 : squares_so_far[i], i / LANES, i % LANES, round_);
    }
    barrier();
    uint row = gl_LocalInvocationIndex;
    if (row >= SIDE) {
        return;
    }
    float sums[32];
    [[dont_unroll]] for (uint i = 0; i < LANES; i++) {
        sums[i] = squares_so_far[row * LANES + i];
    }
    [[dont_unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        [[dont_unroll]] for (uint i = 0; i < LANES; i += 2 * bit) {
            sums[i] += sums[i + bit];
        }
    }
    factors[row] = norm_factor(sums[0], COLS, p.eps);
}

#endif

void hold_x(uint unit, uint round_) {
    bool missing;
#define FETCH_UNIT(u) fetch_unit(u, unit)
#define FETCH_GAIN(u) fetch_gain(u, unit)
#define AWAIT_UNIT(u) missing = missing || unit_is_missing(u)
    EACH_UNIT(FETCH_GAIN)
    do {
        missing = false;
        EACH_UNIT(FETCH_UNIT)
        EACH_UNIT(AWAIT_UNIT)
    } while (AWAITS_X && subgroupAny(missing)); // shuffles follow
    EACH_UNIT(measure_unit)
    EACH_UNIT(make_unit)
    if (NORM != 0) {
        barrier();
        find_factors(round_);
        barrier();
    }
}

#endif
