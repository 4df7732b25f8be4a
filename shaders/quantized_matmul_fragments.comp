// Products like those of quantized_matmul_coopmat, but lanes make matrices of float16 in their registers
// (fragments.glsl). quantized_matmul_split writes the parts of x in the order in which lanes load them
// (fragment_runs.glsl), and scales as pairs of float16. Subgroups that have the same rows of w decode a part of them
// each (fragment_codes.glsl), and share them through shared memory. The columns that quantized_matmul_split adds for
// the biases follow those of x; their weights are not decoded, but copied.
//
// w is the first operand, 16 rows a matrix, and x the second, 8 rows a matrix. With g = lane / 4 and t = lane % 4, a
// lane has 32 neighbouring columns of a chunk of 128, which are 8 steps: of w, those of two neighbouring rows, which are
// rows g and g + 8 of a matrix, and of x, those of rows g and g + 8 of a tile of two matrices. It has four neighbouring
// rows of w in two matrices, so that it has four neighbouring results.
//
// While a subgroup multiplies half a chunk, it decodes the next half and loads the codes of the one after that, all in
// straight code: tensor cores work meanwhile. NVIDIA's driver keeps all sums in memory if tiles of them are stored in a
// loop, or if lanes return early from the code that stores one.
//
// variants: narrow_subgroup_khr
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "math.glsl"
#include "quads.glsl"
#include "fragments.glsl"

layout(constant_id = 1) const uint x_DT = DT_FLOAT32;
TENSOR_OUT(4, y, 5)
QUAD_BITS_OUT(4, y)
layout(set = 0, binding = 0) readonly buffer XWords { uint x_words[]; };
layout(set = 0, binding = 0) readonly buffer XQuads { uvec4 x_quads[]; };
layout(set = 0, binding = 5) readonly buffer Scaled { uint scaled[]; };
layout(set = 0, binding = 6) readonly buffer WMore { uvec4 w_more[]; };
layout(set = 0, binding = 7) readonly buffer XExponents { int x_exponents[]; };
layout(set = 0, binding = 8) readonly buffer WExponents { int w_exponents[]; };
layout(set = 0, binding = 9) writeonly buffer Sums { vec4 sums[]; };
layout(constant_id = 6) const uint SPLITS = 1;
layout(constant_id = 7) const uint PARTS = 1;       // of x
layout(constant_id = 8) const uint GROUP_SHIFT = 7; // log2 of the columns of a group
layout(constant_id = 9) const uint ROW_TILES = 4;   // of 16 rows of x, for each subgroup
layout(constant_id = 10) const uint W_TILES = 2;    // of 16 rows of w: 2, 4 or 8, a multiple of WAVES_M
layout(constant_id = 11) const uint WAVES_M = 1;
layout(constant_id = 12) const uint WAVES_N = 4;
layout(constant_id = 13) const uint RESIDUAL = 0; // whether one is added, of y's dtype; not with SPLITS
#define residual_DT y_DT
QUADS_IN(10, residual)

layout(push_constant) uniform Push { QuantizedMatMulMatrixParams q; };
#define p q.product

const uint FRAGMENTS = 1;
vec4 added; // of the residual
#define FINISHED(v) (RESIDUAL == 0 ? (v) : (v) + added)
#include "fragment_runs.glsl"
#include "fragment_codes.glsl"
#include "quantized_result.glsl"

const uint OWN_TILES = W_TILES / WAVES_M;     // of w's tiles, those that a subgroup decodes
const uint BLOCK_M = ROW_TILES * 16, BLOCK_N = W_TILES * 16;
const uint HALF_STEPS = 4;                    // of half a chunk
const uint CHUNK_QUADS = 2 * HALF_STEPS * 32; // of a tile of x
const uint UNIT_COLUMNS = 32, HALF_COLUMNS = 64;

uint g() { return gl_SubgroupInvocationID / 4; }
uint t() { return gl_SubgroupInvocationID % 4; }
uint wave_m() { return gl_SubgroupID / WAVES_N; }
uint wave_n() { return gl_SubgroupID % WAVES_N; }

// Half a chunk of w as float16, twice: for each tile and each step a lane's words. At the end, results.
const uint HALF = WAVES_N * W_TILES * HALF_STEPS * 32;
const uint STAGE_PITCH = W_TILES * 4 + 1, STAGES = WAVES_M * WAVES_N * 16 * STAGE_PITCH;
shared uvec4 work[2 * HALF > STAGES ? 2 * HALF : STAGES];

uint weights_at(uint half_, uint tile, uint step_) {
    return (((half_ % 2 * WAVES_N + wave_n()) * W_TILES + tile) * HALF_STEPS + step_) * 32 + gl_SubgroupInvocationID;
}

uint m0, n0;                     // the subgroup's first rows
uint first_n;                    // of w, where blocks before this one end
uint x_at[ROW_TILES];            // this lane's first quads of x
uint w_at;                       // and words of the first row of w that it decodes
uint scale_at, more_at;
uint plane;                      // quads of a part of x
uvec4 held_x[PARTS * ROW_TILES]; // under way
uvec4 codes[2 * OWN_TILES];      // of half a chunk, under way; of 4 bits in x and y
uint scales[2 * OWN_TILES];
uvec4 codes_here[2 * OWN_TILES]; // of the half before, which is decoded
f16vec2 scales_here[2 * OWN_TILES];
uvec4 x_step[PARTS * ROW_TILES]; // of this step
uvec4 w_step[W_TILES];
vec4 acc[W_TILES * ROW_TILES * 2];

// Which row a lane's row number `row` is, relative to its first one. It has two neighbouring ones of each tile.
uint row_of(uint row) { return row / 4 * 32 + row % 4; }

void fetch_x(uint step_) {
    [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
        held_x[i] = x_quads[i / ROW_TILES * plane + x_at[i % ROW_TILES] + step_ * 32];
    }
}

// Past the last column, the last codes are read: x is zero there, or they are not multiplied.
void fetch_codes(uint half_) {
    uint unit = min(half_ / 2 * 4 + t(), p.x.cols / UNIT_COLUMNS - 1);
    uint words = GROUP_SHIFT == 4 ? p.x.cols / UNIT_COLUMNS : p.x.cols >> GROUP_SHIFT;
    [[unroll]] for (uint k = 0; k < 2 * OWN_TILES; k++) {
        uint at = w_at + row_of(k) * p.w_strides[0];
        if (BITS == 8) {
            codes[k] = w_4.data[at / 4 + unit * 2 + half_ % 2];
        } else {
            codes[k].xy = w_2.data[at / 2 + unit * 2 + half_ % 2];
        }
        scales[k] = scaled[scale_at + row_of(k) * words + (GROUP_SHIFT < 5 ? unit : unit >> (GROUP_SHIFT - 5))];
    }
}

// Takes the codes under way, of half_, and begins the loads of those that follow.
void take_codes(uint half_) {
    [[unroll]] for (uint k = 0; k < 2 * OWN_TILES; k++) {
        codes_here[k] = codes[k];
        uint bits = scales[k];
        if (GROUP_SHIFT == 4) {
            bits = ((bits >> (half_ % 2 * 16)) & 0xffffu) * 0x10001u;
        }
        scales_here[k] = unpackFloat2x16(bits);
    }
    fetch_codes(half_ + 1);
}

// Step step_ of the codes here as float16: a lane's words of a row.
uvec2 decode(uint row, uint step_) {
    uvec4 words = codes_here[row];
    uvec4 pairs = BITS == 8       ? weights_of_e4m3(step_ < 2 ? words.xy : words.zw, scales_here[row])
                  : SMALL_FLOATS ? weights_of_e2m1(words[step_ / 2], scales_here[row])
                                 : weights_of_integers(words[step_ / 2], scales_here[row]);
    return step_ % 2 == 0 ? pairs.xy : pairs.zw;
}

void decode_step(uint half_, uint step_) {
    [[unroll]] for (uint k = 0; k < OWN_TILES; k++) {
        uvec2 a = decode(2 * k, step_), b = decode(2 * k + 1, step_);
        work[weights_at(half_, wave_m() * OWN_TILES + k, step_)] = uvec4(a.x, b.x, a.y, b.y);
    }
}

// Half a chunk of the columns that quantized_matmul_split has added, which are float16 already.
void copy_more(uint half_) {
    uint quads = q.more / 8;
    [[unroll]] for (uint k = 0; k < OWN_TILES; k++) {
        uint from = more_at + row_of(2 * k) * quads + half_ * 8;
        [[unroll]] for (uint word = 0; word < 2; word++) {
            uvec4 a = w_more[from + word * 4], b = w_more[from + quads + word * 4];
            uint at = weights_at(0, wave_m() * OWN_TILES + k, 2 * word);
            work[at] = uvec4(a.x, b.x, a.y, b.y);
            work[at + 32] = uvec4(a.z, b.z, a.w, b.w);
        }
    }
}

// Multiplies step step_ of half_, and begins the loads of the x that follows.
void multiply_step(uint half_, uint step_, uint next) {
    [[unroll]] for (uint k = 0; k < W_TILES; k++) {
        w_step[k] = work[weights_at(half_, k, step_)];
    }
    [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
        x_step[i] = held_x[i];
    }
    fetch_x(next);
    [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
        [[unroll]] for (uint k = 0; k < W_TILES; k++) {
            uint at = (k * ROW_TILES + i % ROW_TILES) * 2;
            acc[at] = mul_add(w_step[k], x_step[i].xy, acc[at]);
            acc[at + 1] = mul_add(w_step[k], x_step[i].zw, acc[at + 1]);
        }
    }
}

void locate() {
    uint tile_m = WAVES_M * BLOCK_M, tile_n = WAVES_N * BLOCK_N;
    uint tiles_m = (p.x.rows + tile_m - 1) / tile_m;
    m0 = workgroup_index() % tiles_m * tile_m + wave_m() * BLOCK_M;
    first_n = workgroup_index() / tiles_m * tile_n + wave_n() * BLOCK_N;
    n0 = min(first_n, p.n - BLOCK_N); // the last block begins among the rows of the one before
    uint row_tiles = (p.x.rows + 15) / 16, chunks = q.x_runs / CHUNK_RUNS;
    plane = row_tiles * chunks * CHUNK_QUADS;
    [[unroll]] for (uint i = 0; i < ROW_TILES; i++) {
        x_at[i] = min(m0 / 16 + i, row_tiles - 1) * chunks * CHUNK_QUADS + gl_SubgroupInvocationID;
    }
    uint row = n0 + g() * 4 + row_of(wave_m() * OWN_TILES * 2);
    more_at = row * (q.more / 8) + t();
    w_at = p.w_offset + row * p.w_strides[0];
    scale_at = row * (GROUP_SHIFT == 4 ? p.x.cols / UNIT_COLUMNS : p.x.cols >> GROUP_SHIFT);
}

bool exists(uint m, uint n) { return m < p.x.rows && n < p.n && n + 4 > first_n; }

// Whether one of four neighbouring results is of a row that float16 parts do not represent.
bool is_flagged(uint m, uint n) {
    int most = a_exponent(m);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        most = max(most, b_exponent(min(n + c, p.n - 1)));
    }
    return most == NOT_FINITE;
}

void load_residual(uint m, uint n) {
    if (RESIDUAL != 0) {
        added = residual_quad(q.residual_offset + m * p.n + n);
    }
}

// Stores four neighbouring results; e, of_n: exponents of their row and columns. A residual may be in their place, so
// with one, flagged results are left to store_flagged.
void store_quad(uint m, uint n, vec4 v, int e, ivec4 of_n) {
    if (exists(m, n)) {
        if (SPLITS > 1) {
            sums[((gl_WorkGroupID.z * p.x.rows + m) * p.n + n) / 4] = v; // p.n is a multiple of 4
        } else if (RESIDUAL == 0 || (e != NOT_FINITE && all(notEqual(of_n, ivec4(NOT_FINITE))))) {
            load_residual(m, n);
            store_scaled(m, n, v, e, of_n);
        }
    }
}

int row_exponents[(BLOCK_M + 31) / 32]; // of rows 32 i + lane of the block
ivec4 column_exponents;                 // of this lane's quad of columns

void load_exponents() {
    [[unroll]] for (uint i = 0; i < BLOCK_M; i += 32) {
        row_exponents[i / 32] = a_exponent(min(m0 + i + gl_SubgroupInvocationID, p.x.rows - 1));
    }
    uint n = n0 + gl_SubgroupInvocationID % (W_TILES * 4) * 4;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        column_exponents[c] = b_exponent(n + c);
    }
}

// A row tile's results, through shared memory, so that the code that stores them exists once for each.
void store_tile(uint i) {
    uint from = gl_SubgroupID * 16 * STAGE_PITCH;
    [[unroll]] for (uint tile = 0; tile < W_TILES; tile += 2) {
        [[unroll]] for (uint j = 0; j < 2; j++) {
            vec4 a = acc[(tile * ROW_TILES + i) * 2 + j], b = acc[((tile + 1) * ROW_TILES + i) * 2 + j];
            uint at = from + (8 * j + 2 * t()) * STAGE_PITCH + tile * 4 + g();
            work[at] = floatBitsToUint(vec4(a.xz, b.xz));
            work[at + STAGE_PITCH] = floatBitsToUint(vec4(a.yw, b.yw));
        }
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[dont_unroll]] for (uint at = gl_SubgroupInvocationID; at < 16 * W_TILES * 4; at += 32) {
        uint row = at / (W_TILES * 4), quad = at % (W_TILES * 4);
        int e = subgroupShuffle(row_exponents[i / 2], i % 2 * 16 + row); // all lanes have as many turns
        store_quad(m0 + i * 16 + row, n0 + quad * 4, uintBitsToFloat(work[from + row * STAGE_PITCH + quad]), e,
                   column_exponents);
    }
    subgroupBarrier();
}

void store_tiles() {
    load_exponents();
    store_tile(0);
    if (ROW_TILES > 1) {
        store_tile(min(1, ROW_TILES - 1));
    }
    if (ROW_TILES > 2) {
        store_tile(min(2, ROW_TILES - 1));
        store_tile(min(3, ROW_TILES - 1));
    }
}

// After store_tiles: each lane has the quads that it had there, and with a residual stores all four of them. Blocks that
// overlap store the same results.
void store_flagged() {
    bool flagged = false;
    for (uint i = gl_SubgroupInvocationID; i < BLOCK_M; i += 32) {
        flagged = flagged || a_flagged(m0 + i);
    }
    for (uint i = gl_SubgroupInvocationID; i < BLOCK_N; i += 32) {
        flagged = flagged || b_flagged(n0 + i);
    }
    if (subgroupAny(flagged)) {
        const uint quads = BLOCK_N / 4;
        [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < BLOCK_M * quads; i += 32) {
            uint m = m0 + i / quads, n = n0 + i % quads * 4;
            if (exists(m, n) && is_flagged(m, n)) {
                load_residual(m, n);
                [[dont_unroll]] for (uint c = 0; c < 4; c++) {
                    if (RESIDUAL != 0 || a_flagged(m) || b_flagged(n + c)) {
                        store_plain(m, n + c);
                    }
                }
            }
        }
    }
}

void main() {
    locate();
    uint coded = chunks_of(p.x.cols) * 2; // halves of chunks
    bool last = gl_WorkGroupID.z + 1 == SPLITS;
    uint first = gl_WorkGroupID.z * q.split_runs * 2, end = last ? coded : first + q.split_runs * 2;
    [[unroll]] for (uint i = 0; i < W_TILES * ROW_TILES * 2; i++) {
        acc[i] = vec4(0.0);
    }
    fetch_codes(first);
    fetch_x(first * HALF_STEPS);
    take_codes(first);
    [[unroll]] for (uint step_ = 0; step_ < HALF_STEPS; step_++) {
        decode_step(first, step_);
    }
    uint next = first * HALF_STEPS; // the step of x whose loads begin; there is room past the last one
    [[dont_unroll]] for (uint half_ = first; half_ < end; half_++) {
        barrier();
        take_codes(half_ + 1);
        [[unroll]] for (uint step_ = 0; step_ < HALF_STEPS; step_++) {
            next++;
            multiply_step(half_, step_, next);
            decode_step(half_ + 1, step_);
        }
    }
    uint more = !SMALL_FLOATS && last ? q.more / HALF_COLUMNS : 0;
    [[dont_unroll]] for (uint half_ = 0; half_ < more; half_++) {
        barrier();
        copy_more(half_);
        barrier();
        [[dont_unroll]] for (uint step_ = 0; step_ < HALF_STEPS; step_++) {
            next++;
            multiply_step(0, step_, next);
        }
    }
    barrier();
    store_tiles();
    if (SPLITS == 1) {
        store_flagged();
    }
}
