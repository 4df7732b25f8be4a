// The tile of a workgroup of WAVES_M * WAVES_N subgroups, each of which has a block of
// ROWS by COLUMNS cooperative matrices.
//
// Before the include: BLOCK_SPEC, the first of five specialization constants; and
// FRAGMENT, the rows and columns of a matrix.
#ifndef MATRIX_BLOCKS_GLSL
#define MATRIX_BLOCKS_GLSL

#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require

layout(constant_id = BLOCK_SPEC) const uint ROWS = 4;
layout(constant_id = BLOCK_SPEC + 1) const uint COLUMNS = 4;
layout(constant_id = BLOCK_SPEC + 2) const uint WAVES_M = 2;
layout(constant_id = BLOCK_SPEC + 3) const uint WAVES_N = 2;
layout(constant_id = BLOCK_SPEC + 4) const uint LANES = 32;

const uint THREADS = WAVES_M * WAVES_N * LANES;
const uint TILE_M = WAVES_M * ROWS * FRAGMENT;
const uint TILE_N = WAVES_N * COLUMNS * FRAGMENT;

uint wave_m() { return gl_SubgroupID / WAVES_N * ROWS * FRAGMENT; } // the subgroup's block in the tile
uint wave_n() { return gl_SubgroupID % WAVES_N * COLUMNS * FRAGMENT; }

#endif
