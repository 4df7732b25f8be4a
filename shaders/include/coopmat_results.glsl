// Results of projection_coopmat: the sums that its teams have of their tiles, added up, finished and stored.
//
// Before the include: coopmat_x.glsl, byte_tile_stores.glsl, and where tiles are in shared memory.
#ifndef COOPMAT_RESULTS_GLSL
#define COOPMAT_RESULTS_GLSL

// Where the team's sums of a tile are.
uint sums_from(uint place, uint t, uint x_block) { return tile_from(place, t) + x_block * SUMS; }

// Element i of the tiles with the same rows of w: the previous sum plus the teams' sums of this round.
float add_round(float total, uint tile, uint i) {
    uint at = i % TILE / 16 * SUM_PITCH * 4 + i % 16;
    [[unroll]] for (uint slice = 0; slice < ABREAST / SLICE_TEAMS; slice++) {
        float sums[8]; // of the teams of a slice, 8 at most
        [[unroll]] for (uint c = 0; c < SLICE_TEAMS; c++) {
            // Zeros after the last chunk.
            uint from = sums_from(tile / TILES * ABREAST + slice * SLICE_TEAMS + c, tile % TILES, i / TILE);
            sums[c] = uintBitsToFloat(work[from + at / 4][at & 3u]);
        }
        [[unroll]] for (uint first = 0; first < SLICE_TEAMS; first += PART_TEAMS) {
            [[unroll]] for (uint c = 1; c < PART_TEAMS; c++) {
                sums[first] += sums[first + c];
            }
        }
        total += SLICE_TEAMS > PART_TEAMS ? sums[0] + sums[PART_TEAMS] : sums[0];
    }
    return total;
}

// Element i of the tiles with the same rows of w: i % 16 of these, i / 16 of the rows of x.
uint row_of_w(uint tile, uint i) { return tile_row(tile) + i % 16; }
uint row_of_x(uint i) { return block * SIDE + i / 16; }
bool exists(uint tile, uint i) { return row_of_w(tile, i) < p.sets[matrix].n && row_of_x(i) < p.x_rows; }

void finish(uint tile, uint i, float v, float second) {
    uint row = row_of_w(tile, i), of_x = row_of_x(i);
    float factor = NORM == 0 ? 1.0 : factors[i / 16];
    v = scaled_result(v, factor);
    if (PAIR) {
        v = silu_mul_result(v, scaled_result(second, factor));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        v += bits_to_float(residual_bits(p.residual_offset + of_x * p.sets[0].n + row), y_DT);
    }
    store(matrix, of_x, row, v);
}

// A thread has one of every THREADS results of the workgroup; those of the blocks of x of a tile follow one another.
const uint TILE_RESULTS = TILE * X_BLOCKS;
const uint RESULTS = GROUP_TILES * TILE_RESULTS;
const uint TURNS = (RESULTS + THREADS - 1) / THREADS; // 16 at most
float totals[TURNS * SIDES];                          // the sums so far

uint result_of(uint turn) { return turn * THREADS + gl_LocalInvocationIndex; }
uint tile_of(uint mine) { return mine / TILE_RESULTS * SIDES; }

// Where a sum that is not finite waits for finish_others: in the place of the first part of it.
uint waiting_at(uint tile, uint i) {
    return sums_from(tile / TILES * ABREAST, tile % TILES, i / TILE) * 4 + i % TILE / 16 * SUM_PITCH * 4 + i % 16;
}

// Stores those results of the thread that are not finite. There is one copy of this code, since it is long.
void finish_others(uint turns) {
    while (turns != 0) {
        uint mine = result_of(findLSB(turns)), tile = tile_of(mine), i = mine % TILE_RESULTS;
        turns &= turns - 1;
        float sums[2];
        [[unroll]] for (uint side = 0; side < SIDES; side++) {
            uint at = waiting_at(tile + side, i), set = PAIR ? side : matrix;
            sums[side] = whole(uintBitsToFloat(work[at / 4][at & 3u]), set, row_of_w(tile, i), i / 16);
        }
        finish(tile, i, sums[0], sums[SIDES - 1]);
    }
}

// Adds up the teams' results, and stores the sums after the last round.
void collect(uint round_, bool last) {
    uint others = 0;
    [[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
        uint mine = result_of(turn), tile = tile_of(mine), i = mine % TILE_RESULTS, k = turn * SIDES;
        if (mine >= RESULTS) {
            break;
        }
        [[unroll]] for (uint side = 0; side < SIDES; side++) {
            totals[k + side] = add_round(round_ > 0 ? totals[k + side] : 0.0, tile + side, i);
        }
        if (!last || !exists(tile, i)) {
            continue;
        }
        if (stays(totals[k]) && stays(totals[k + SIDES - 1])) {
            finish(tile, i, totals[k], totals[k + SIDES - 1]);
            continue;
        }
        [[unroll]] for (uint side = 0; side < SIDES; side++) {
            uint at = waiting_at(tile + side, i);
            work[at / 4][at & 3u] = floatBitsToUint(totals[k + side]);
        }
        others |= 1 << turn;
    }
    if (NORM == 0) {
        finish_others(others);
    }
}

#endif
