// x of projection_coopmat: the way of its chunks to shared memory, and the norms of its rows.
//
// Before the include: what the kernel declares of x, the rows that the workgroup has, and the places of its teams.
#ifndef COOPMAT_X_GLSL
#define COOPMAT_X_GLSL

// The teams with the same columns load a chunk of x into shared memory.
const uint X_THREADS = SLOTS * X_BLOCKS * 32;
const uint X_LOADS = (X_BLOCKS * X_QUADS + X_THREADS - 1) / X_THREADS;
uvec4 x_words[X_LOADS];

// A quad of the chunk that the thread loads. The last threads repeat the last one.
uint chunk_quad(uint k) {
    uint thread = (slot() * X_BLOCKS + x_block()) * 32 + team_lane();
    return min(k * X_THREADS + thread, X_BLOCKS * X_QUADS - 1);
}

// Where a chunk of a block of rows of x is, the last one if there is no such block.
uint chunk_from(uint block, uint chunk) {
    return (min(block, (p.x_rows - 1) / SIDE) * CHUNKS + min(chunk, CHUNKS - 1)) * X_CHUNK(SIDE);
}

void fetch_x(uint unit) {
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        uint at = chunk_quad(k);
        x_words[k] = rows_of_x[chunk_from(block + at / X_QUADS, unit / CHUNK) + at % X_QUADS];
    }
}

// Where the chunk of a block is in shared memory.
uint x_from(uint x_block) { return X_FROM + (place() % ABREAST * X_BLOCKS + x_block) * X_QUADS; }

void put_x() {
    [[unroll]] for (uint k = 0; k < X_LOADS; k++) {
        work[x_from(0) + chunk_quad(k)] = x_words[k];
    }
}

// The sum of squares of a unit of a row of the workgroup's blocks.
float unit_squares(uint row, uint unit) {
    uint at = chunk_from(block + row / SIDE, unit / CHUNK) + X_SQUARES(SIDE) + (unit % CHUNK * SIDE + row % SIDE) / 4;
    return uintBitsToFloat(rows_of_x[at][row & 3u]);
}

const uint GROUP_X_ROWS = SIDE * X_BLOCKS;
shared float factors[GROUP_X_ROWS]; // 1/rms of these rows

#ifdef COOPMAT_KHR

// What a lane of projection.comp adds up, with several loads under way.
float lane_squares(uint row, uint lane) {
    const uint abreast = 4;
    float sum = 0.0;
    for (uint unit = lane; unit < UNITS; unit += abreast * LANES) {
        float squares[abreast];
        [[unroll]] for (uint k = 0; k < abreast; k++) {
            squares[k] = unit_squares(row, min(unit + k * LANES, UNITS - 1));
        }
        [[unroll]] for (uint k = 0; k < abreast; k++) {
            sum += unit + k * LANES < UNITS ? squares[k] : 0.0;
        }
    }
    return sum;
}

void find_factors() {
    const uint abreast = 32 / LANES; // rows of a team
    [[unroll]] for (uint first = 0; first < GROUP_X_ROWS; first += TEAMS * abreast) {
        uint row = first + team() * abreast + team_lane() / LANES;
        float sum = lane_squares(min(row, GROUP_X_ROWS - 1), team_lane() % LANES);
        [[unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
            sum += subgroupShuffleXor(sum, bit);
        }
        if (team_lane() % LANES == 0 && row < GROUP_X_ROWS) {
            factors[row] = norm_factor(sum, COLS, p.eps);
        }
    }
}

#else

void find_factors() {
    uint row = gl_LocalInvocationIndex;
    if (row >= GROUP_X_ROWS) {
        return;
    }
    float sums[32];
    [[dont_unroll]] for (uint i = 0; i < LANES; i++) {
        sums[i] = 0.0;
        [[dont_unroll]] for (uint unit = i; unit < UNITS; unit += LANES) {
            sums[i] += unit_squares(row, unit);
        }
    }
    [[dont_unroll]] for (uint bit = 1; bit < LANES; bit *= 2) {
        [[dont_unroll]] for (uint i = 0; i < LANES; i += 2 * bit) {
            sums[i] += sums[i + bit];
        }
    }
    factors[row] = norm_factor(sums[0], COLS, p.eps);
}

#endif

#endif
