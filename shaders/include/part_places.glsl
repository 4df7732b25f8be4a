// What a workgroup of projection_parts or projection_fragments has: a part of the columns, a block of SIDE rows of x, and
// tiles of 16 rows of a matrix, of which each of its TEAMS takes TILES at a time, in TURNS turns. Tiles of all matrices
// are numbered one after the other in the sums of parts.
//
// Before the include: these constants, SETS, PART and PARTS, THREADS; the parameters p.
#ifndef PART_PLACES_GLSL
#define PART_PLACES_GLSL

uint block, blocks, part;
uint set_of_group;  // the workgroup's matrix
bool first_of_part; // whether the workgroup has the first tiles
uint first_turn;    // the team's, among those of all teams that take the matrix

uint tiles_in(uint set) { return (p.sets[set].n + 15) / 16; }

// The first tile of a matrix, among those of all.
uint tiles_before(uint set) { return set == 0 ? 0 : p.starts[set - 1]; }

// The columns of a row of sums.
uint sums_pitch() { return (tiles_before(SETS - 1) + tiles_in(SETS - 1)) * 16; }

void locate(uint team) {
    blocks = (p.x_rows + SIDE - 1) / SIDE;
    block = workgroup_index() % blocks; // workgroups with the same codes are neighbours
    part = workgroup_index() / blocks % PARTS;
    uint group = workgroup_index() / blocks / PARTS;
    first_of_part = group == 0;
    set_of_group = 0;
    [[unroll]] for (uint i = 0; i + 1 < SETS; i++) {
        uint groups = (tiles_in(i) + TEAMS * TURNS * TILES - 1) / (TEAMS * TURNS * TILES);
        if (set_of_group == i && group >= groups) {
            group -= groups;
            set_of_group++;
        }
    }
    first_turn = group * TEAMS * TURNS + team;
}

// Threads make the digits of eight columns of a row of the block at a time.
const uint EIGHTS = PART * SIDE * 4, PASSES = (EIGHTS + THREADS - 1) / THREADS;

uint row_of(uint eight) { return eight / (PART * 4); }
uint unit_of(uint eight) { return eight / 4 % PART; }

#endif
