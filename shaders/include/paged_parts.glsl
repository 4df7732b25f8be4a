// How paged_sdpa_coopmat2 stores what it finds in a range of keys, for paged_sdpa_combine.
//
// Before the include: attention_registers.glsl and paged_tiles.glsl; parts[]; the constant PART_QUADS; wave_row;
// sees_not_finite.
#ifndef PAGED_PARTS_GLSL
#define PAGED_PARTS_GLSL

// Stores a subgroup's matrix to those rows that exist. A second way for tiles whose rows all exist, without shared memory,
// would bring the matrices into memory.
void store_rows(MATRIX_C m, uint to) {
    uint row = gl_SubgroupInvocationID / 2, quad = gl_SubgroupInvocationID % 2 * 2;
    subgroupBarrier();
    matrix_store(m, tile, stage_from(), STAGE_PITCH);
    subgroupBarrier();
    uint from = stage_from() + row * STAGE_PITCH + quad;
    uvec4 a = tile[from], b = tile[from + 1];
    if (wave_row + row < tile_rows) {
        parts[to + row * PART_QUADS + quad] = uintBitsToFloat(a);
        parts[to + row * PART_QUADS + quad + 1] = uintBitsToFloat(b);
    }
}

void store_results(uint range) {
    uint before = (key_head * gl_NumWorkGroups.z + range) * p.rows * p.group; // rows of other heads and ranges
    uint to = (before + first * p.group + wave_row) * PART_QUADS, stats = to + V_STEPS * FRAGMENT / 4;
    uint row = gl_SubgroupInvocationID;
    if (row < FRAGMENT && wave_row + row < tile_rows) {
        float exponent = sees_not_finite(wave_row + row) ? make_nan() : float(sums_exponent);
        parts[stats + row * PART_QUADS + PAGED_PART_EXPONENT / 4] = vec4(exponent, 0.0, 0.0, 0.0);
    }
    barrier(); // the last values are read
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        store_rows(acc[t], to + t * FRAGMENT / 4);
    }
    store_rows(top, stats + PAGED_PART_TOP / 4);
    store_rows(weight, stats + PAGED_PART_WEIGHTS / 4);
}

#endif
