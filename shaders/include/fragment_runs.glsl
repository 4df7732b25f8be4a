// Where quantized_matmul_split puts the words of x's parts, two elements each: row by row for quantized_matmul_coopmat,
// and for quantized_matmul_fragments in the order in which lanes load them. There, a chunk is 128 columns, of which
// lane (g, t) (see fragments.glsl) has runs 4t to 4t + 3, of two steps each; and the columns added to those of x are
// chunks of their own, of which it has runs t, t + 4, t + 8 and t + 12.
//
// Before the include: FRAGMENTS, whether it is the second order; and BITS.
#ifndef FRAGMENT_RUNS_GLSL
#define FRAGMENT_RUNS_GLSL

const uint CHUNK_RUNS = 16; // of 8 columns

uint chunks_of(uint cols) { return (cols + 8 * CHUNK_RUNS - 1) / (8 * CHUNK_RUNS); }

// Word `pair` (0 to 3) of run `run` of a row. runs: of a row, with what is added; cols: of x.
uint part_word(uint part, uint rows, uint row, uint runs, uint run, uint cols, uint pair) {
    if (FRAGMENTS == 0) {
        return ((part * rows + row) * runs + run) * 4 + pair;
    }
    uint own = chunks_of(cols), c = run / CHUNK_RUNS, in_chunk = run % CHUNK_RUNS;
    uint t = c < own ? in_chunk / 4 : in_chunk % 4;
    uint step_ = (c < own ? in_chunk % 4 : in_chunk / 4) * 2 + pair / 2;
    uint tile = part * ((rows + 15) / 16) + row / 16;
    uint quad = ((tile * (runs / CHUNK_RUNS) + c) * 8 + step_) * 32 + row % 8 * 4 + t;
    return quad * 4 + row / 8 % 2 * 2 + pair % 2;
}

// Which word of its run, and which half of it, has element k % 8: elements are paired as codes are unpacked.
uint pair_of(uint k) { return FRAGMENTS != 0 && BITS == 8 ? (k & 1u) | ((k >> 1) & 2u) : k & 3u; }
uint half_of(uint k) { return FRAGMENTS != 0 && BITS == 8 ? (k >> 1) & 1u : (k >> 2) & 1u; }

#endif
