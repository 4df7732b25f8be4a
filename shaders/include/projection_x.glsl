// For projection.comp: x, loaded into shared memory as floats or as integers,
// and from there into registers.
#ifndef PROJECTION_X_GLSL
#define PROJECTION_X_GLSL

// The quads of a piece of each row, in planes: quad j of unit i is at j * PIECE_UNITS + i.
const uint X_QUADS = LIMBS ? 6 : 8; // of a unit
shared uvec4 staged[X_ROWS * X_QUADS * PIECE_UNITS];
// For each unit, the sum of its span and, with LIMBS, the number that the span's integers are multiples of.
shared vec2 unit_stats[X_ROWS * PIECE_UNITS];
shared ivec4 unit_starts[SPAN > 1 ? X_ROWS * PIECE_UNITS : 1]; // what sums of a unit begin with, by eight columns
shared float unit_squares[NORM == 0 ? 1 : X_ROWS * UNITS]; // sums of squares before the gain

uvec4 held_x[X_QUADS]; // the lane's unit of a row
vec2 held_stats;
int held_start;

#ifdef DOT8
#include "byte_limbs.glsl"
#elif defined(SUBGROUP)
#include "unit_integers.glsl"
#endif

#include "attention_parts.glsl"

uint x_row(uint m) { return min(gl_WorkGroupID.z * X_ROWS + m, p.x_rows - 1); }

vec4 x_in(uint m, uint quad) {
    if (OVERLAPS(X_BINDING)) {
        return uintBitsToFloat(awaited_x.data[p.x_offset / 4 + quad]);
    }
    return SPLITS != 1 ? combined_quad(p.x_offset, quad) : x_quad(p.x_offset + x_row(m) * p.x_stride + 4 * quad);
}

vec4 with_gain(vec4 v, uint quad) { return NORM == 2 ? gained(v, gain_quad(p.gain_offset + 4 * quad)) : v; }

// How many groups of eight columns of a row a thread loads.
const uint EIGHTS = (PIECE_UNITS * 4 + THREADS - 1) / THREADS;

// The n-th of them. The last threads repeat a whole span, so that neighbouring threads always have one.
uint eight(uint n, uint units) {
    uint wanted = n * THREADS + thread_index();
    return wanted < units * 4 ? wanted : (units - SPAN) * 4 + wanted % (4 * SPAN);
}

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_vote : require

// A row of x that may not be there yet (overlap.glsl), all that a thread needs of it at once.
uvec4 awaited_quads[OVERLAPS(X_BINDING) ? 2 * EIGHTS : 1];

void await_x(uint from, uint units) {
    bool missing;
    do {
        missing = false;
        [[unroll]] for (uint n = 0; n < EIGHTS; n++) {
            uint at = p.x_offset / 4 + from * 8 + 2 * eight(n, units);
            awaited_quads[2 * n] = awaited_x.data[at];
            awaited_quads[2 * n + 1] = awaited_x.data[at + 1];
        }
        [[unroll]] for (uint i = 0; i < 2 * EIGHTS; i++) {
            missing = missing || is_missing(awaited_quads[i]);
        }
    } while (subgroupAny(missing)); // shuffles follow
}

// Loads `units` units of row m, from unit `from` on, the first of the piece:
// eight columns to a thread, so four adjacent threads share a unit. Threads
// beyond the last unit repeat others and write nothing, because drivers handle
// shuffles in branches badly.
void stage_eight(uint m, uint from, uint i, bool exists, vec4 a, vec4 b) {
    uint quad = from * 8 + 2 * i;
    float square = NORM != 0 ? squares_of_eight(a, b) : 0.0;
    a = with_gain(a, quad);
    b = with_gain(b, quad + 1);
    vec2 stats = vec2(0.0, 1.0);
    int start = 0;
#ifdef DOT8
    if (LIMBS) {
        stats.y = stage_limbs(m * X_QUADS * PIECE_UNITS, i, exists, a, b, start);
    }
#endif
    if (!LIMBS && exists) {
        uint at = (m * X_QUADS + 2 * (i & 3)) * PIECE_UNITS + (i >> 2);
        staged[at] = floatBitsToUint(a);
        staged[at + PIECE_UNITS] = floatBitsToUint(b);
    }
    if (SPAN > 1 && exists) {
        unit_starts[m * PIECE_UNITS + (i >> 2)][i & 3] = start;
    }
    stats.x = sum_of_lanes(sum_of_eight(a, b), 4 * SPAN);
    square = NORM != 0 ? sum_of_lanes(square, 4) : 0.0;
    if (exists && (i & 3) == 0) {
        unit_stats[m * PIECE_UNITS + (i >> 2)] = stats;
        if (NORM != 0) {
            unit_squares[m * UNITS + from + (i >> 2)] = square;
        }
    }
}

void stage_rows(uint from, uint units) {
    // Subgroups without columns only take time from the others.
    if (gl_SubgroupID * gl_SubgroupSize >= units * 4) {
        return;
    }
    if (OVERLAPS(X_BINDING)) {
        await_x(from, units);
    }
    [[unroll]] for (uint n = 0; n < EIGHTS; n++) {
        bool exists = n * THREADS + thread_index() < units * 4;
        uint i = eight(n, units);
        vec4 a[X_ROWS], b[X_ROWS];
        [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
            a[m] = OVERLAPS(X_BINDING) ? uintBitsToFloat(awaited_quads[2 * n]) : x_in(m, from * 8 + 2 * i);
            b[m] = OVERLAPS(X_BINDING) ? uintBitsToFloat(awaited_quads[2 * n + 1]) : x_in(m, from * 8 + 2 * i + 1);
        }
        [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
            stage_eight(m, from, i, exists, a[m], b[m]);
        }
    }
}
#else
// One unit per thread; it adds in the same order as the other form.
void stage_rows(uint from, uint units) {
    for (uint at_once = thread_index(); at_once < units * X_ROWS; at_once += THREADS) {
        uint m = at_once / units, unit = at_once % units;
        float sums[4], squares[4];
        [[unroll]] for (uint j = 0; j < 4; j++) {
            uint quad = (from + unit) * 8 + 2 * j;
            vec4 a = x_in(m, quad), b = x_in(m, quad + 1);
            squares[j] = squares_of_eight(a, b);
            a = with_gain(a, quad);
            b = with_gain(b, quad + 1);
            uint at = (m * X_QUADS + 2 * j) * PIECE_UNITS + unit;
            staged[at] = floatBitsToUint(a);
            staged[at + PIECE_UNITS] = floatBitsToUint(b);
            sums[j] = sum_of_eight(a, b);
        }
        unit_stats[m * PIECE_UNITS + unit] = vec2((sums[0] + sums[1]) + (sums[2] + sums[3]), 1.0);
        if (NORM != 0) {
            unit_squares[m * UNITS + from + unit] = (squares[0] + squares[1]) + (squares[2] + squares[3]);
        }
    }
}
#endif

float factors[X_ROWS]; // 1/rms of each row

void find_factors() {
    [[unroll]] for (uint m = 0; m < X_ROWS; m++) {
        factors[m] = 1.0;
        if (NORM != 0) {
            float sum = 0.0;
            for (uint unit = lane(); unit < UNITS; unit += LANES) {
                sum += unit_squares[m * UNITS + unit];
            }
            factors[m] = norm_factor(team_sum(sum), COLS, p.eps);
        }
    }
}

void stage(uint piece) {
    uint from = piece * PIECE_UNITS;
    stage_rows(from, min(UNITS - from, PIECE_UNITS));
    barrier();
    if (piece == PIECES - 1) {
        find_factors();
    }
}

// Loads the lane's unit of a slice of the piece into registers; beyond the last unit it loads the last one, whose
// products are discarded.
void take_x(uint m, uint slice) {
    uint unit = slice * LANES + lane();
    uint last = min(UNITS, PIECE_UNITS) - 1;
    uint at = EVEN ? unit : min(unit, last);
    [[unroll]] for (uint j = 0; j < X_QUADS; j++) {
        held_x[j] = staged[(m * X_QUADS + j) * PIECE_UNITS + at];
    }
    held_stats = unit_stats[m * PIECE_UNITS + at];
    held_start = 0;
    if (SPAN > 1) {
        ivec4 starts = unit_starts[m * PIECE_UNITS + at];
        held_start = (starts.x + starts.y) + (starts.z + starts.w);
    }
}

#endif
