// Sums of a chunk's units in the order of projection_sums.glsl.
//
// Before the include: byte_tiles.glsl, SPAN and GROUP_SHIFT.
#ifndef CHUNK_SUMS_GLSL
#define CHUNK_SUMS_GLSL

// Whether the span that ends with unit u is the first of a group in the chunk.
bool begins_group(uint u) { return (u + 1 - SPAN) % (1 << GROUP_SHIFT) == 0; }

// Sums that are still to be added to the next one of the same size: of a unit, and of two.
FLOATS waiting_unit[HELD_TILES], waiting_pair[HELD_TILES];

// result: of the span that ends with unit u. After the last unit, it becomes the sum of the chunk.
void add_to_chunk(uint u, uint t, inout FLOATS result) {
    if (SPAN == 1) {
        if (u % 2 == 0) {
            waiting_unit[t] = result;
            return;
        }
        floats_add(result, waiting_unit[t]);
    }
    if (SPAN <= 2) {
        if (u % 4 == 1) {
            waiting_pair[t] = result;
            return;
        }
        floats_add(result, waiting_pair[t]);
    }
}

#endif
