// Adds up the sums that the teams of projection_held have of their tiles, and finishes and stores the results.
#ifndef HELD_RESULTS_GLSL
#define HELD_RESULTS_GLSL

// These add up the teams' sums of an element of a tile in the order of projection_sums.glsl. Teams after the last chunk
// have zeros.
float team_sum(uint team, uint t, uint at) { return uintBitsToFloat(work[sums_from(team, t) + at / 4][at & 3u]); }

// The sum of a chunk, which is a team's, or two teams' with half of it each.
float chunk_sum(uint team, uint t, uint at) {
    return CHUNK == CHUNK_UNITS ? team_sum(team, t, at) : team_sum(team, t, at) + team_sum(team + 1, t, at);
}

const uint CHUNK_TEAMS = CHUNK_UNITS / CHUNK;
const uint PART_TEAMS = (LANES < PART_UNITS ? LANES : PART_UNITS) / CHUNK;

float part_sum(uint team, uint t, uint at) {
    float sum = chunk_sum(team, t, at) + chunk_sum(team + CHUNK_TEAMS, t, at);
    if (PART_TEAMS == 2 * CHUNK_TEAMS) {
        return sum;
    }
    return (sum + chunk_sum(team + 2 * CHUNK_TEAMS, t, at)) + chunk_sum(team + 3 * CHUNK_TEAMS, t, at);
}

float slice_sum(uint team, uint t, uint at) {
    float sum = part_sum(team, t, at);
    return SLICE_TEAMS > PART_TEAMS ? sum + part_sum(team + PART_TEAMS, t, at) : sum;
}

// Element i of a tile: the previous sum plus the teams' sums of this round.
float add_round(float total, uint t, uint i) {
    uint at = i / 16 * SUM_PITCH * 4 + i % 16;
    [[unroll]] for (uint team = 0; team < TEAMS; team += SLICE_TEAMS) {
        total += slice_sum(team, t, at);
    }
    return total;
}

// Result `mine` of a turn is element mine % TILE of tile mine / TILE, where a pair of tiles counts once; element i of a
// tile is in row i % 16 of w and row i / 16 of x.
const uint RESULTS = TILES / SIDES * TILE;

uint residual_at(uint turn, uint mine) {
    uint row = min(row_of(turn, 0) + mine / TILE * 16 + mine % 16, p.sets[0].n - 1);
    return p.residual_offset + min(block * SIDE + mine % TILE / 16, p.x_rows - 1) * p.sets[0].n + row;
}

uint residual_in(uint at) { return AWAITS_RESIDUAL ? awaited_residual.data[at] : residual_bits(at); }

uint first_residual; // of a turn: loaded before it is needed

void fetch_residual(uint turn) {
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        first_residual = residual_in(residual_at(turn, min(gl_LocalInvocationIndex, RESULTS - 1)));
    }
}

void finish(uint turn, uint mine, float sum, float second) {
    uint matrix = matrix_of(turn), row = row_of(turn, matrix) + mine / TILE * 16 + mine % 16;
    uint in_block = mine % TILE / 16, row_of_x = block * SIDE + in_block;
    if (row >= p.sets[matrix].n || row_of_x >= p.x_rows) {
        return;
    }
    sum = whole(sum, matrix, row, in_block);
    float factor = NORM == 0 ? 1.0 : factors[in_block];
    float v = scaled_result(sum, factor);
    if (PAIR) {
        v = silu_mul_result(v, scaled_result(whole(second, 1, row, in_block), factor));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        uint residual = first_residual;
        if (mine >= THREADS) {
            residual = residual_in(residual_at(turn, mine));
        }
        while (AWAITS_RESIDUAL && is_missing(residual)) { // hardly ever: it was computed before x
            residual = residual_in(residual_at(turn, mine));
        }
        v += bits_to_float(residual, y_DT);
    }
    store(matrix, row_of_x, row, v);
}

// The sum so far of an element, kept between rounds.
float kept_sum(uint number, uint round_, uint t, uint i) {
    uint kept = (number * TILES + t) * TILE + i;
    float sum = add_round(ROUNDS > 1 && round_ > 0 ? totals[kept] : 0.0, t, i);
    if (ROUNDS > 1) {
        totals[kept] = sum;
    }
    return sum;
}

// The teams' results of a turn, the workgroup's turn `number`.
void collect(uint turn, uint number, uint round_) {
    [[dont_unroll]] for (uint mine = gl_LocalInvocationIndex; mine < RESULTS; mine += THREADS) {
        uint t = mine / TILE * SIDES, i = mine % TILE;
        float sum = kept_sum(number, round_, t, i), second = PAIR ? kept_sum(number, round_, t + 1, i) : 0.0;
        if (round_ + 1 == ROUNDS) {
            finish(turn, mine, sum, second);
        }
    }
}

#endif
