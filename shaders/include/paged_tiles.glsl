// Which rows a workgroup has, for kernels of attention over pages that take rows of one sequence together: up to TOKENS
// rows that follow each other, with the query heads of one key head as rows of a tile, neighbours at the same row. Tiles
// begin where the sequence changes, and at multiples of TOKENS, a power of two of at most TILE; each workgroup finds its
// own. All that it finds comes from shared memory, by which a compiler knows that it is the same for all threads.
//
// Before the include: TOKENS and TILE; the push constants p; sequences[] and lengths[].
#ifndef PAGED_TILES_GLSL
#define PAGED_TILES_GLSL

const uint BLOCK = 256; // rows that are looked at together

shared uint begins_s[BLOCK / 32]; // a bit for each row of a block: whether a tile begins there
shared uint row_ends[TILE];       // one past the last key that a row of the tile sees

uint key_head, first, tile_rows; // of the workgroup: its first row, and heads of its rows
uint table_row;

int sequence_of(uint row) { return sequences[p.sequence_offset + row * p.sequence_stride]; }

// Notes where tiles begin in a block. Called by all threads together.
void find_begins(uint block) {
    barrier(); // the block before has been read
    if (gl_LocalInvocationIndex < BLOCK / 32) {
        begins_s[gl_LocalInvocationIndex] = 0;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < BLOCK; i += gl_WorkGroupSize.x) {
        uint row = min(block + i, p.rows - 1);
        int own = sequence_of(row), before = sequence_of(max(row, 1u) - 1); // both loads are under way at once
        if (block + i < p.rows && (row % TOKENS == 0 || own != before)) {
            atomicOr(begins_s[i / 32], 1u << (i & 31u));
        }
    }
    barrier();
}

// The first row after `at` where a tile begins, or the end of the block.
uint next_begin(uint block, uint at) {
    uint word = at / 32, bits = begins_s[word] & (0xfffffffeu << (at & 31u));
    while (bits == 0 && word + 1 < BLOCK / 32) {
        bits = begins_s[++word];
    }
    return min(p.rows, block + (bits == 0 ? BLOCK : word * 32 + findLSB(bits)));
}

// Finds the rows of a tile; false: there are fewer tiles. Called by all threads together.
bool find_tile(uint number) {
    uint before = 0;
    for (uint block = 0; block < p.rows; block += BLOCK) {
        find_begins(block);
        for (uint i = 0; i < BLOCK / 32; i++) {
            uint bits = begins_s[i], tiles = bitCount(bits);
            if (number < before + tiles) {
                for (uint skipped = before; skipped < number; skipped++) {
                    bits &= bits - 1;
                }
                uint at = i * 32 + findLSB(bits);
                first = block + at;
                tile_rows = (next_begin(block, at) - first) * p.group;
                return true;
            }
            before += tiles;
        }
    }
    return false;
}

// Notes what the tile's rows see, and returns one past the last key of any. Called by all threads together.
uint find_ends() {
    uint sequence = uint(sequence_of(first)), at = gl_LocalInvocationIndex;
    table_row = p.table_offset + sequence * p.table_strides[0];
    barrier(); // the tile before is done
    if (at < TILE) {
        uint row = first + min(at, tile_rows - 1) / p.group;
        int length = clamp(lengths[p.length_offset + row * p.length_stride], 0, int(p.capacity));
        row_ends[at] = at < tile_rows && sequence < p.sequences ? uint(length) : 0;
    }
    barrier();
    uint end = 0;
    for (uint i = 0; i < TILE; i++) {
        end = max(end, row_ends[i]);
    }
    return end;
}

#endif
