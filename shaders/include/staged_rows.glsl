// Rows of x as floats in shared memory, STAGED_CHUNK elements of each at a time,
// for kernels that multiply all of them with each row of a matrix. x is read in
// quads; the swizzle prevents bank conflicts between lanes that read quads 1, 2,
// 4 or 8 apart.
//
// Before the include: STAGED_SPEC, the first of two specialization constants:
// rows of x (1 to 8) and elements of a chunk (a multiple of 32).
#ifndef STAGED_ROWS_GLSL
#define STAGED_ROWS_GLSL

layout(constant_id = STAGED_SPEC) const uint STAGED_ROWS = 1;
layout(constant_id = STAGED_SPEC + 1) const uint STAGED_CHUNK = 1024;
const uint STAGED_MOST = 8;

shared vec4 staged_x[STAGED_ROWS * STAGED_CHUNK / 4];

uint staged_swizzle(uint quad) { return quad ^ ((quad >> 3) & 7u); }

void staged_set(uint row, uint i, float v) {
    staged_x[row * (STAGED_CHUNK / 4) + staged_swizzle(i >> 2)][i & 3u] = v;
}

vec4 staged_quad(uint row, uint quad) { return staged_x[row * (STAGED_CHUNK / 4) + staged_swizzle(quad)]; }

#endif
