// Multiplies a few rows of x with the rows of up to three quantized matrices, in
// one dispatch; with NORM, x is normalised first: RMSNorm(x) * gain. EPILOGUE
// determines what is done with the products: they are stored, the residual is
// added to the first, SiLU(first) * second is stored, or only the index of the
// largest. With SPLITS > 1, x consists of the partial results of that many splits
// of attention.
//
// A row of a matrix is cut into slices of LANES units of 32 codes, one unit to a
// lane. A lane keeps what it needs of x in registers and goes from row to row, so
// that the inner loop reads nothing but weights, scales and biases. ABREAST slices
// of a row are computed side by side; a workgroup has SLOTS times as many teams of
// LANES lanes, each with ROWS rows at a time and TURNS times as many in all. The
// sums of the slices are added up at the end, in the order of the columns.
//
// x * gain goes through shared memory, PIECE columns at a time. 1/rms is a factor
// of every result, so it is applied at the end. The weights of a step are loaded
// while the previous one is computed, those of the first step while x is loaded.
//
// With OVERLAP, the first weights are loaded before x is there.
//
// The order of sums depends on LANES and SPAN alone, not on SLOTS, ABREAST, ROWS,
// TURNS and PIECE.
//
// With INTEGERS, codes that fit into bytes are multiplied as such (code_bytes.glsl),
// and x is kept as integers: byte_limbs.glsl. For codes of 4 bits that takes half as
// many instructions as floats.
//
// variants: narrow_subgroup_dot8 narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // SLOTS * ABREAST * LANES

#include "quads.glsl"
#include "math.glsl"

layout(constant_id = 25) const uint OVERLAP = 0; // 1 << …_BINDING
#define X_BINDING 0
#define RESIDUAL_BINDING 2
#define RESULT_BINDING(set) (6 + 4 * (set))
#include "overlap.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
TENSOR_IN(1, gain, 2)
QUADS_IN(1, gain)
layout(constant_id = 3) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 4) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 5) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 6) const uint BITS = 4;
layout(constant_id = 7) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 8) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 9) const uint SETS = 1;        // matrices
layout(constant_id = 10) const uint NORM = 0;       // 1: without gain, 2: with
layout(constant_id = 11) const uint EPILOGUE = 0;   // PROJECTION_*
layout(constant_id = 12) const uint ROWS = 1;       // a power of two
layout(constant_id = 13) const uint TURNS = 1;
layout(constant_id = 14) const uint LANES = 32; // a power of two
layout(constant_id = 15) const uint SPLITS = 1; // 1: x is rows
layout(constant_id = 16) const uint HEAD = 4;   // elements of a head, with SPLITS
layout(constant_id = 17) const uint INTEGERS = 0;
layout(constant_id = 18) const uint SLOTS = 1;
layout(constant_id = 19) const uint ABREAST = 1;
layout(constant_id = 20) const uint PIECE = 1024; // a multiple of 32 * LANES
layout(constant_id = 21) const uint X_ROWS = 1;   // of a workgroup
layout(constant_id = 22) const uint HALVES = 0;   // 1: scales and biases are 16 bits each and lie in pairs in words
                                                  // 2: there are no biases, but two scales to a unit
layout(constant_id = 23) const uint SPAN = 1;     // units whose products are added up as integers: unit_integers.glsl
layout(constant_id = 24) const uint ONE_MATRIX = 0; // 1: each matrix's bindings hold all matrices

#define residual_DT y_DT
TENSOR_BLOCKS(2, residual, readonly)
TENSOR_LOADS(residual)

// The same, where they may be results that are not there yet: float32.
layout(set = 0, binding = 0) volatile coherent readonly buffer AwaitedX { uvec4 data[]; } awaited_x;
layout(set = 0, binding = 2) volatile coherent readonly buffer AwaitedResidual { uint data[]; } awaited_residual;

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint STREAMS = PAIR ? 2 * ROWS : ROWS; // rows of matrices in flight
const uint UNITS = COLS / 32;
const uint SLICES = (UNITS + LANES - 1) / LANES;
const bool EVEN = UNITS % LANES == 0;
const uint PIECE_UNITS = PIECE / 32;
const uint PIECE_SLICES = PIECE_UNITS / LANES;
const uint PIECES = (SLICES + PIECE_SLICES - 1) / PIECE_SLICES;
const uint FOLDS = (PIECE_SLICES + ABREAST - 1) / ABREAST; // slices of a piece that a team processes one after another
const uint GROUP_ROWS = SLOTS * TURNS * ROWS;              // of each matrix, in a workgroup

const uint SMALL_SHIFT = HALVES == 2 ? 4 : 5;

#include "code_bytes.glsl"

#ifdef DOT8
const bool LIMBS = INTEGERS != 0 && CODE_BYTES;
#else
const bool LIMBS = false;
#endif

#include "projection_sums.glsl"
#include "projection_teams.glsl"
#include "projection_weights.glsl"
#include "projection_x.glsl"
#include "projection_dot.glsl"
#include "projection_results.glsl"

// Multiplies the part of a slice in a buffer with a row of x.
void compute_row(uint m, uint held, uint piece, uint slice, bool exists, uint turn) {
    if (X_ROWS > 1) {
        take_x(m, slice - piece * PIECE_SLICES);
    }
    multiply(held, slice);
    float mine = stream_sum();
    if (exists && lane() < STREAMS) {
        put_part(m, slice, turn, mine);
    }
}

// Multiplies it with the rows of x.
void compute(uint held, uint piece, uint slice, bool exists, uint turn) {
    if (SMALL_FLOATS && !LIMBS) { // so much code that a copy for each row would not fit into caches
        [[dont_unroll]] for (uint m = 0; m < HIDDEN(X_ROWS, p.x_rows); m++) {
            compute_row(m, held, piece, slice, exists, turn);
        }
        return;
    }
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        compute_row(m, held, piece, slice, exists, turn);
    }
}

// The slices of a team, one after another: those of a fold of a piece.
void work(uint piece, uint fold) {
    uint wanted = piece * PIECE_SLICES + fold * ABREAST + team() % ABREAST;
    uint end = min(SLICES, (piece + 1) * PIECE_SLICES);
    uint slice = min(wanted, end - 1); // a team without one repeats the last one and discards the result
    fetch(0, slice, 0);
    bool two_ahead = OVERLAPS(X_BINDING) && TURNS > 1;
    if (two_ahead) {
        fetch(1, slice, 1);
    }
    if (fold == 0) {
        stage(piece);
    }
    take_x(0, slice - piece * PIECE_SLICES);
    for (uint turn = 0; turn < TURNS; turn += 2) {
        if (turn + 1 < TURNS && !(two_ahead && turn == 0)) {
            fetch(1, slice, turn + 1);
        }
        compute(0, piece, slice, wanted < end, turn);
        if (turn + 1 < TURNS) {
            if (turn + 2 < TURNS) {
                fetch(0, slice, turn + 2);
            }
            compute(1, piece, slice, wanted < end, turn + 1);
        }
    }
}

void main() {
    locate();
    if (!OVERLAPS(RESIDUAL_BINDING)) {
        fetch_residual();
    }
    for (uint piece = 0; piece < PIECES; piece++) {
        for (uint fold = 0; fold < FOLDS; fold++) {
            work(piece, fold);
        }
        if (OVERLAPS(RESIDUAL_BINDING) && piece == PIECES - 1) { // computed before x, so normally there; finish() waits
            fetch_residual();
        }
        barrier();
    }
    finish();
}
